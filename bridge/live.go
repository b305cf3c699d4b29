package bridge

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

const (
	liveEvery = time.Second
	// maxStreams bounds how many streams are open.
	maxStreams = 32
	// liveWrite is how long a client may take to take an event; liveBuffer bounds what the system holds for it.
	liveWrite  = 5 * time.Second
	liveBuffer = 64 << 10
	// maxLiveTopics is the largest page of topics, liveTopics the one without a limit.
	maxLiveTopics = 200
	liveTopics    = 50
)

// live streams events: one at once, then one every second.
func (d *dashboard) live(w http.ResponseWriter, r *http.Request) {
	if !d.health.started.Load() {
		writeEnvelope(w, errLeaving)
		return
	}
	key, v, f := viewOf(r)
	if f != nil {
		writeEnvelope(w, f.envelope())
		return
	}
	if v = d.enter(key, v); v == nil {
		writeEnvelope(w, envelope{Code: http.StatusServiceUnavailable, Message: "too many streams are open"})
		return
	}
	defer d.exit(key, v)
	if e := patient(w); e != nil {
		writeEnvelope(w, *e)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no") // what nginx wants to be told
	narrow(r.Context())
	d.stream(w, r, v)
}

// stream sends events until the client goes, does not take one in time, or the bridge leaves.
func (d *dashboard) stream(w http.ResponseWriter, r *http.Request, v *view) {
	every := time.NewTicker(liveEvery)
	defer every.Stop()
	for {
		event, err := d.look(v) //nolint:contextcheck // all who look at the same share it
		if err != nil || d.send(w, event) != nil {
			return
		}
		select {
		case <-every.C:
		case <-r.Context().Done():
			return
		case <-d.leaving:
			return
		}
	}
}

func (d *dashboard) send(w http.ResponseWriter, event []byte) error {
	c := http.NewResponseController(w)
	if err := c.SetWriteDeadline(d.now().Add(liveWrite)); err != nil {
		return err
	}
	data := append(append([]byte("data: "), event...), "\n\n"...)
	if _, err := w.Write(data); err != nil {
		return err
	}
	return c.Flush()
}

// viewOf reads which topics a stream is to show.
func viewOf(r *http.Request) (viewKey, *view, *fault) {
	if f := knownParameters(r, "match", "limit", "cursor"); f != nil {
		return viewKey{}, nil, f
	}
	query := r.URL.Query()
	key := viewKey{match: query.Get("match"), cursor: query.Get("cursor"), limit: liveTopics}
	if text := query.Get("limit"); text != "" {
		limit, err := strconv.Atoi(text)
		if err != nil || limit < 1 || limit > maxLiveTopics {
			return key, nil, badInput("limit", text, "1 to "+strconv.Itoa(maxLiveTopics))
		}
		key.limit = limit
	}
	v := &view{request: topicsRequest{Match: key.match, Limit: &key.limit, Cursor: key.cursor}}
	var f *fault
	v.limit, v.from, f = v.request.page()
	return key, v, f
}

// enter counts a stream and gives its view, the one that others look at already where there is one; nil: there are too
// many streams.
func (d *dashboard) enter(key viewKey, own *view) *view {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.streams == maxStreams {
		return nil
	}
	d.streams++
	v := d.views[key]
	if v == nil {
		v = own
		d.views[key] = v
	}
	v.viewers++
	return v
}

func (d *dashboard) exit(key viewKey, v *view) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.streams--
	v.viewers--
	if v.viewers == 0 {
		delete(d.views, key)
	}
}

// connKey is where the context of a request has its connection.
type connKey struct{}

// narrow bounds what the system holds for a client that does not take it: it is noticed sooner then.
func narrow(ctx context.Context) {
	if conn, ok := ctx.Value(connKey{}).(interface{ SetWriteBuffer(bytes int) error }); ok {
		_ = conn.SetWriteBuffer(liveBuffer) // it is a help, not a need
	}
}
