package testenv

import (
	"crypto/tls"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// NATSServer is a nats-server inside the test process, on a port of its own.
type NATSServer struct {
	t       testing.TB
	options *server.Options
	server  *server.Server
}

// NATSOption changes the configuration a server starts with.
type NATSOption func(*server.Options)

// JetStream turns JetStream on, with a store that survives Restart and goes with the test.
func JetStream() NATSOption { return func(o *server.Options) { o.JetStream = true } }

// NATSTLS makes a server speak TLS alone, with a certificate; where clients is set, they need one that it signed.
func NATSTLS(own Issued, clients *Authority) NATSOption {
	return func(o *server.Options) {
		o.TLS, o.TLSTimeout = true, 5
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{own.Pair}}
		if clients != nil {
			o.TLSVerify = true
			o.TLSConfig.ClientAuth, o.TLSConfig.ClientCAs = tls.RequireAndVerifyClientCert, clients.Pool()
		}
	}
}

// NATSConfig takes what a configuration file of nats-server says, but for the address.
func NATSConfig(tb testing.TB, file string) NATSOption {
	tb.Helper()
	loaded, err := server.ProcessConfigFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	return func(o *server.Options) {
		loaded.Host, loaded.Port, loaded.NoLog, loaded.NoSigs = o.Host, o.Port, o.NoLog, o.NoSigs
		loaded.JetStream = loaded.JetStream || o.JetStream
		*o = *loaded
	}
}

// NATS starts a nats-server. Any other setting can be made through a function:
//
//	testenv.NATS(t, testenv.JetStream(), func(o *server.Options) { o.MaxPayload = 4096 })
func NATS(tb testing.TB, options ...NATSOption) *NATSServer {
	tb.Helper()
	port, err := freePort()
	if err != nil {
		tb.Fatal(err)
	}
	o := &server.Options{
		Host: "127.0.0.1", Port: port, NoLog: true, NoSigs: true,
	}
	for _, option := range options {
		option(o)
	}
	n := &NATSServer{t: tb, options: o}
	if o.JetStream && o.StoreDir == "" {
		o.StoreDir = storeDir(tb)
	}
	n.start()
	tb.Cleanup(n.Shutdown)
	return n
}

// NATSCluster starts n servers that know each other, and waits until they do.
func NATSCluster(tb testing.TB, n int, options ...NATSOption) []*NATSServer {
	tb.Helper()
	const within = 20 * time.Second
	ports, routes := make([]int, n), make([]*url.URL, n)
	for i := range ports {
		port, err := freePort()
		if err != nil {
			tb.Fatal(err)
		}
		ports[i], routes[i] = port, &url.URL{Scheme: "nats", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
	}
	nodes := make([]*NATSServer, n)
	for i := range nodes {
		nodes[i] = NATS(tb, append(slices.Clone(options), func(o *server.Options) {
			o.ServerName = "node-" + strconv.Itoa(i)
			o.Cluster = server.ClusterOpts{Name: "cluster", Host: "127.0.0.1", Port: ports[i]}
			o.Routes = routes
		})...)
	}
	for _, node := range nodes {
		Eventually(tb, within, func() bool { return node.Joined(n) }, "the servers of the cluster know each other")
	}
	return nodes
}

// Joined reports whether the server has a route to all others of a cluster of n.
func (n *NATSServer) Joined(size int) bool { return n.server.NumRemotes() == size-1 }

// storeDir is not t.TempDir: a server that shuts down may still write a moment, and TempDir fails a test for that.
func storeDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("", "dqnats") //nolint:usetesting // see above
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// URL is nats://host:port.
func (n *NATSServer) URL() string { return "nats://" + n.Addr() }

// Addr is host:port.
func (n *NATSServer) Addr() string {
	return net.JoinHostPort(n.options.Host, strconv.Itoa(n.options.Port))
}

// Server is the server that runs now, for tests that look inside.
func (n *NATSServer) Server() *server.Server { return n.server }

// Connect gives a connection that is closed at the end of the test.
func (n *NATSServer) Connect(options ...nats.Option) *nats.Conn {
	n.t.Helper()
	nc, err := nats.Connect(n.URL(), options...)
	if err != nil {
		n.t.Fatalf("connect to %s: %v", n.URL(), err)
	}
	n.t.Cleanup(nc.Close)
	return nc
}

// Shutdown ends the server and waits until it is gone: connections break, the port is closed.
func (n *NATSServer) Shutdown() {
	n.server.Shutdown()
	n.server.WaitForShutdown()
}

// Restart starts the server again on the same port with the same store.
func (n *NATSServer) Restart() {
	n.t.Helper()
	n.Shutdown()
	n.start()
}

// Reload changes the settings of the running server, as a signal does after its file was changed. They hold for later
// starts too.
func (n *NATSServer) Reload(options ...NATSOption) {
	n.t.Helper()
	for _, option := range options {
		option(n.options)
	}
	if err := n.server.ReloadOptions(n.options.Clone()); err != nil {
		n.t.Fatalf("reload nats-server: %v", err)
	}
}

func (n *NATSServer) start() {
	n.t.Helper()
	const within = 20 * time.Second
	s, err := server.NewServer(n.options.Clone())
	if err != nil {
		n.t.Fatalf("configure nats-server: %v", err)
	}
	s.Start()
	if !s.ReadyForConnections(within) {
		s.Shutdown()
		n.t.Fatalf("nats-server on %s does not come up", n.Addr())
	}
	n.server = s
}
