package bridge

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/rs/zerolog"
)

const httpTimeout = 10 * time.Second

// httpServer serves health and metrics, and the queue to who may use it.
type httpServer struct {
	addr, token string
	profiles    bool
	health      *health
	concerns    *concerns
	metrics     *metrics
	web         *web
	dashboard   *dashboard
	log         zerolog.Logger
	server      *http.Server
	done        chan struct{}
}

func (s *httpServer) start() error {
	if s.addr == "" {
		return nil
	}
	listener, err := net.Listen("tcp", s.addr)
	if err != nil {
		return fmt.Errorf("listen for HTTP: %w", err)
	}
	s.server = &http.Server{
		Handler: s.handler(loopback(listener.Addr().String())), ReadHeaderTimeout: httpTimeout, ReadTimeout: httpTimeout,
		WriteTimeout: 12 * httpTimeout, MaxHeaderBytes: 64 << 10,
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, conn)
		},
	}
	s.done = make(chan struct{})
	s.log.Info().Stringer("addr", listener.Addr()).Msg("HTTP is served")
	if s.token == "" && !loopback(listener.Addr().String()) {
		s.log.Warn().Msg("without DQ_HTTP_TOKEN an address that is not loopback serves only health and metrics")
	}
	go func() {
		defer close(s.done)
		if err := s.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error().Err(err).Msg("HTTP server ends")
		}
	}()
	return nil
}

// stop ends the server: its requests have a second.
func (s *httpServer) stop(ctx context.Context) {
	if s.server == nil {
		return
	}
	s.dashboard.stop()
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if s.server.Shutdown(ctx) != nil {
		_ = s.server.Close() // what is left is cut off
	}
	<-s.done
}

func (s *httpServer) handler(local bool) http.Handler {
	guarded := http.NewServeMux()
	guarded.HandleFunc("/metrics", methods(
		promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{}).ServeHTTP, http.MethodGet, http.MethodHead))
	guarded.HandleFunc("/", unknownPath)
	mux := http.NewServeMux()
	if local || s.token != "" {
		s.web.register(guarded)
		s.dashboard.register(mux, guarded)
	}
	if s.profiles && (local || s.token != "") {
		guarded.HandleFunc("/debug/pprof/", pprof.Index)
		guarded.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		guarded.HandleFunc("/debug/pprof/profile", pprof.Profile)
		guarded.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		guarded.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	mux.HandleFunc("/healthz", methods(verdict(s.health.alive, nil), http.MethodGet, http.MethodHead))
	mux.HandleFunc("/readyz", methods(verdict(s.health.ready, s.concerns.lines), http.MethodGet, http.MethodHead))
	mux.Handle("/", s.guard(guarded))
	if local && s.token == "" {
		return onlyLocal(mux)
	}
	return mux
}

// writeEnvelope answers with an envelope, whose code is the status too.
func writeEnvelope(w http.ResponseWriter, e envelope) {
	data, err := e.encode()
	if err != nil { // no answer holds what cannot be encoded
		e = envelope{Code: http.StatusInternalServerError}
		data, _ = e.encode()
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store") // a pop that a cache answers would be no pop
	w.WriteHeader(e.Code)
	_, _ = w.Write(append(data, '\n')) // the client may be gone
}

// methods lets only these through.
func methods(next http.HandlerFunc, allowed ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if slices.Contains(allowed, r.Method) {
			next(w, r)
			return
		}
		list := strings.Join(allowed, ", ")
		w.Header().Set("Allow", list)
		writeEnvelope(w, badInput("method", r.Method, list).as(http.StatusMethodNotAllowed))
	}
}

func unknownPath(w http.ResponseWriter, r *http.Request) {
	writeEnvelope(w, envelope{Code: http.StatusNotFound, Message: "path " + excerpt(r.URL.Path) + " is not known"})
}

// verdict answers 200, or 503 with the reasons; below it what else is to be said, where notes is not nil.
func verdict(check func() error, notes func() []string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		well, lines := judge(check, notes)
		if !well {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = fmt.Fprintln(w, strings.Join(lines, "\n")) // the client may be gone
	}
}

// judge gives whether all is well, and the lines that say so.
func judge(check func() error, notes func() []string) (bool, []string) {
	lines := []string{"ok"}
	err := check()
	if err != nil {
		lines = strings.Split(err.Error(), "\n")
	}
	if notes != nil {
		lines = append(lines, notes()...)
	}
	return err == nil, lines
}

// guard wants the token, where there is one.
func (s *httpServer) guard(next http.Handler) http.Handler {
	if s.token == "" {
		return next
	}
	wanted := sha256.Sum256([]byte(s.token)) // of one length, so that the time does not even tell that of the token
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		given := sha256.Sum256([]byte(text))
		if subtle.ConstantTimeCompare(given[:], wanted[:]) != 1 || !found {
			w.Header().Set("WWW-Authenticate", "Bearer")
			writeEnvelope(w, envelope{Code: http.StatusUnauthorized, Message: "header Authorization: Bearer <DQ_HTTP_TOKEN> is wanted"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// onlyLocal refuses what a web page of somebody else could make a browser on this machine send: under another name for
// this machine, from another origin, or as an image or a link, which have no Origin but tell the site they are from.
func onlyLocal(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origin := r.Header.Get("Origin")
		_, from, _ := strings.Cut(origin, "://")
		foreign := origin == "" && r.Header.Get("Sec-Fetch-Site") == "cross-site"
		if !loopback(r.Host) || origin != "" && !loopback(from) || foreign {
			writeEnvelope(w, envelope{Code: http.StatusForbidden, Message: "only requests from this machine are answered"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// loopback reports whether a host, with or without a port, is this machine itself.
func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || err == nil && addr.IsLoopback()
}
