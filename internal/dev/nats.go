package dev

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"
)

// startNATS runs a nats-server in this process, with JetStream under dir/jetstream.
func startNATS(addr, dir string, log zerolog.Logger) (*server.Server, error) {
	const within = 30 * time.Second // a big stream takes a while to be read
	host, port, err := splitAddr(addr)
	if err != nil {
		return nil, err
	}
	if err = CheckFree(addr, "--nats-addr"); err != nil {
		return nil, err
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	s, err := server.NewServer(&server.Options{
		ServerName: "dqbridge-dev", Host: host, Port: port,
		JetStream: true, StoreDir: dir, // the server adds /jetstream itself
		NoSigs: true, // signals are the program's
	})
	if err != nil {
		return nil, fmt.Errorf("configure the NATS server: %w", err)
	}
	logger := &natsLogger{log: log.With().Str("server", "nats").Logger(), fatal: make(chan string, 1)}
	s.SetLoggerV2(logger, false, false, false)
	s.Start()
	if !s.ReadyForConnections(within) {
		s.Shutdown()
		s.WaitForShutdown()
		return nil, fmt.Errorf("the NATS server on %s does not come up: %s", addr, logger.why())
	}
	return s, nil
}

// natsURL is where clients on this machine reach a server that listens on addr, be it on all interfaces.
func natsURL(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if ok && tcp.IP.IsUnspecified() {
		addr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: tcp.Port}
	}
	return "nats://" + addr.String()
}

// CheckFree says which address is taken, and by which flag another one is chosen. A port is free only for the moment,
// but whoever starts a second dev or has a server there learns it in plain words.
func CheckFree(addr, flag string) error {
	listener, err := net.Listen("tcp", addr) //nolint:noctx // it does not block
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s is taken by another program: end it, or choose another address with %s", addr, flag)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	return listener.Close()
}

func splitAddr(addr string) (string, int, error) {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, fmt.Errorf("--nats-addr: %w", err)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("--nats-addr %s: the port must be a number from 0 to 65535", addr)
	}
	return host, int(port), nil
}

// natsLogger puts the server's log into ours. What a server tells at every start is of no interest here.
type natsLogger struct {
	log   zerolog.Logger
	fatal chan string // the first reason why the server cannot run
}

func (l *natsLogger) Noticef(format string, v ...any) { l.log.Debug().Msgf(format, v...) }
func (l *natsLogger) Warnf(format string, v ...any)   { l.log.Warn().Msgf(format, v...) }
func (l *natsLogger) Errorf(format string, v ...any)  { l.log.Error().Msgf(format, v...) }
func (l *natsLogger) Debugf(format string, v ...any)  { l.log.Debug().Msgf(format, v...) }
func (l *natsLogger) Tracef(format string, v ...any)  { l.log.Trace().Msgf(format, v...) }

// Fatalf must not end the process: Start returns it as an error.
func (l *natsLogger) Fatalf(format string, v ...any) {
	select {
	case l.fatal <- fmt.Sprintf(format, v...):
	default:
	}
}

func (l *natsLogger) why() string {
	select {
	case reason := <-l.fatal:
		return reason
	default:
		return "no answer in time"
	}
}
