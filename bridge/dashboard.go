package bridge

import (
	"net/http"
	"sync"
	"time"

	"github.com/dqbridge/dqbridge/delay"
)

// maxAdminBody bounds what a verb may be sent over HTTP.
const maxAdminBody = 64 << 10

// dashboard serves what the page asks for, under /api/: the admin verbs as over NATS, and readings of its own.
type dashboard struct {
	admin    *admin
	acks     *acks
	replicas *replicas
	health   *health
	concerns *concerns
	page     *page
	version  string
	// mayChange says that there is a token, so that whoever comes as far as here has it.
	mayChange bool
	now       func() time.Time

	// leaving is closed when the streams are to end.
	leaving chan struct{}
	leave   sync.Once
	// mu guards views and streams, the number of streams that are open.
	mu      sync.Mutex
	views   map[viewKey]*view
	streams int
	// whole is read for all views together.
	whole whole
	// timelines are by the names of their ranges.
	timelines map[string]*timeline
}

func newDashboard(b *Bridge) *dashboard {
	d := &dashboard{
		admin: b.admin, acks: b.acks, replicas: b.replicas, health: b.health, concerns: b.concerns, page: newPage(dashboardFiles),
		version: b.options.Version, mayChange: b.options.HTTPToken != "", now: b.now,
		leaving: make(chan struct{}), views: make(map[viewKey]*view), timelines: make(map[string]*timeline),
	}
	for name, span := range timelineRanges() {
		d.timelines[name] = &timeline{timelineRange: span}
	}
	return d
}

// register adds the page, which is free, and what only those may ask who may use the queue.
func (d *dashboard) register(free, guarded *http.ServeMux) {
	d.page.register(free)
	var names []string
	for _, v := range d.verbs() {
		names = append(names, v.name)
		guarded.HandleFunc("/api/admin/"+v.name, methods(d.serving(d.verb(v)), http.MethodPost))
	}
	guarded.HandleFunc("/api/admin/{verb}", methods(d.serving(func(_ http.ResponseWriter, r *http.Request) envelope {
		return badVerb(r.PathValue("verb"), names).envelope()
	}), http.MethodPost))
	guarded.HandleFunc("/api/live", methods(d.live, http.MethodGet))
	guarded.HandleFunc("/api/history", methods(d.serving(d.history), http.MethodGet))
	guarded.HandleFunc("/api/timeline", methods(d.serving(d.dueTimes), http.MethodGet))
}

// stop ends the streams, at once.
func (d *dashboard) stop() { d.leave.Do(func() { close(d.leaving) }) }

// serving answers 503 while the bridge does not serve.
func (d *dashboard) serving(next webHandler) http.HandlerFunc { return whileServing(d.health, next) }

// webVerb is a verb over HTTP; begin carries it out and sees to it that the request is answered.
type webVerb struct {
	name    string
	changes bool
	begin   func(request webRequest)
}

// verbs are those of dq.admin, and bury, which goes the way of dq.bury.
func (d *dashboard) verbs() []webVerb {
	var list []webVerb
	for _, v := range d.admin.verbs() {
		list = append(list, webVerb{v.name, v.changes, func(request webRequest) {
			d.admin.carryOut(v.do, request.data, request.answer)
		}})
	}
	return append(list, webVerb{"bury", true, func(request webRequest) { d.acks.take(delay.VerbBury, request) }})
}

func (d *dashboard) verb(v webVerb) webHandler {
	return func(w http.ResponseWriter, r *http.Request) envelope {
		if v.changes && !d.mayChange {
			return envelope{Code: http.StatusForbidden, Message: "nothing can be changed over HTTP until DQ_HTTP_TOKEN is set"}
		}
		if f := knownParameters(r); f != nil {
			return f.envelope()
		}
		data, f := readBody(w, r, maxAdminBody)
		if f != nil {
			return f.envelope()
		}
		if e := patient(w); e != nil {
			return *e
		}
		// A purge or kick of a large topic takes its time.
		if err := http.NewResponseController(w).SetWriteDeadline(d.now().Add(adminTimeout + httpTimeout)); err != nil {
			return envelope{Code: http.StatusServiceUnavailable, Message: err.Error()}
		}
		request := newWebRequest(d.admin.subjects.admin(v.name), data)
		v.begin(request)
		return request.wait(r.Context())
	}
}
