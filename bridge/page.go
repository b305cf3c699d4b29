package bridge

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed dashboard
var dashboardFiles embed.FS

const (
	pageFolder = "dashboard"
	pageIndex  = "index.html"
	// pagePolicy lets the page load its own files and ask its own server, and nothing else.
	pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

// page serves the files of the dashboard. They hold no data, so they are free.
type page struct{ files map[string]pageFile }

type pageFile struct {
	data      []byte
	kind, tag string
}

func newPage(files fs.FS) *page {
	p := &page{files: make(map[string]pageFile)}
	// What is built in can be read.
	_ = fs.WalkDir(files, pageFolder, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, name)
		sum := sha256.Sum256(data)
		p.files[strings.TrimPrefix(name, pageFolder+"/")] = pageFile{
			data: data, kind: kindOf(name), tag: `"` + hex.EncodeToString(sum[:16]) + `"`,
		}
		return err
	})
	return p
}

// kindOf gives the content type of a file. It does not ask the system, whose table may be another one.
func kindOf(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".js", ".mjs":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	return "text/plain; charset=utf-8" // licences
}

func (p *page) register(mux *http.ServeMux) {
	mux.HandleFunc("/{$}", methods(p.serve(pageIndex), http.MethodGet, http.MethodHead))
	mux.HandleFunc("/ui/", methods(func(w http.ResponseWriter, r *http.Request) {
		p.serve(strings.TrimPrefix(r.URL.Path, "/ui/"))(w, r)
	}, http.MethodGet, http.MethodHead))
}

func (p *page) serve(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		file, found := p.files[name]
		if !found {
			unknownPath(w, r)
			return
		}
		header := w.Header()
		header.Set("Content-Type", file.kind)
		header.Set("Content-Security-Policy", pagePolicy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cache-Control", "no-cache") // ask whether it is still the same: the tag says so
		header.Set("ETag", file.tag)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(file.data))
	}
}
