// Package dashboard tests the dashboard as its users meet it: a bridge on a real Redis and NATS, and a real Chromium that
// is driven by clicks and keys.
package dashboard
