// Package whole tests the built binary as its users meet it: several replicas, a real redis-server and nats-server,
// clients that write down what they see, and faults. The History of the clients and its check are code of their own,
// so that a longer run than a test can use them.
package whole
