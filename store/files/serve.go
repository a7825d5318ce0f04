package files

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strings"
	"time"

	"byline/store/blog"
)

// transferTime is how long the bytes of an upload or file may take, instead of the server's timeout: 10 MB at 270
// kbit/s.
const transferTime = 5 * time.Minute

// ServeHTTP serves the files at /files/ID, to which it redirects if they are in Blob Storage, and receives the uploads
// to a folder at /uploads/ID.
func (f *Files) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if name, ok := strings.CutPrefix(r.URL.Path, UploadPrefix); ok && f.folder != nil {
		f.serveUpload(w, r, blog.FileID(name))
		return
	}
	id, ok := blog.FileOf(r.URL.Path)
	switch {
	case !ok:
		f.refuse(w, r, http.StatusNotFound, blog.NotFound, "there is no such file")
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		f.refuse(w, r, http.StatusMethodNotAllowed, blog.Invalid, "a file can only be read")
	case f.folder == nil:
		w.Header().Set("Cache-Control", cacheControl)
		http.Redirect(w, r, f.o.URL+"/"+string(id), http.StatusPermanentRedirect)
	default:
		f.serveFile(w, r, id)
	}
}

// serveFile serves a file in the folder. As its content is what a user has chosen, browsers must show it as a picture
// and nothing else.
func (f *Files) serveFile(w http.ResponseWriter, r *http.Request, id blog.FileID) {
	file, err := os.Open(f.folder.path(public, id))
	switch {
	case errors.Is(err, os.ErrNotExist):
		f.refuse(w, r, http.StatusNotFound, blog.NotFound, "there is no such file")
		return
	case err != nil:
		f.fail(w, r, err)
		return
	}
	defer file.Close()
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(transferTime)) // not of a test's recorder
	h := w.Header()
	h.Set("Content-Type", id.Type())
	h.Set("Cache-Control", cacheControl)
	h.Set("ETag", `"`+string(id)+`"`)
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	http.ServeContent(w, r, "", time.Time{}, file)
}

// serveUpload receives an upload. Pages of every origin may send it: who has its address may, from wherever, and no
// request has other authority.
func (f *Files) serveUpload(w http.ResponseWriter, r *http.Request, id blog.FileID) {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	switch {
	case r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "":
		h.Set("Access-Control-Allow-Methods", http.MethodPut)
		h.Set("Access-Control-Allow-Headers", "Content-Type")
		h.Set("Access-Control-Max-Age", "7200")
		w.WriteHeader(http.StatusNoContent)
		return
	case !id.Valid():
		f.refuse(w, r, http.StatusNotFound, blog.NotFound, "there is no such upload")
		return
	case r.Method != http.MethodPut:
		h.Set("Allow", "PUT")
		f.refuse(w, r, http.StatusMethodNotAllowed, blog.Invalid, "an upload can only be sent")
		return
	}
	if err := f.folder.checkSignature(id, r.URL.Query()); err != nil {
		f.refuse(w, r, http.StatusForbidden, blog.Forbidden, err.Error())
		return
	}
	switch {
	case r.Header.Get("Content-Type") != id.Type():
		f.refuse(w, r, http.StatusUnsupportedMediaType, blog.Invalid, "the Content-Type must be "+id.Type())
		return
	case r.ContentLength < 0:
		f.refuse(w, r, http.StatusLengthRequired, blog.Invalid, "there must be a Content-Length")
		return
	case r.ContentLength != id.Size():
		f.refuse(w, r, http.StatusBadRequest, blog.Invalid, "the Content-Length is not the size of the upload")
		return
	}
	deadline, control := time.Now().Add(transferTime), http.NewResponseController(w)
	_, _ = control.SetReadDeadline(deadline), control.SetWriteDeadline(deadline) // not of a test's recorder
	switch err := f.folder.receive(id, r.Body); {
	case err == nil:
		w.WriteHeader(http.StatusCreated)
	case errors.Is(err, errExists), errors.Is(err, errBusy):
		f.refuse(w, r, http.StatusConflict, blog.Conflict, err.Error())
	case errors.Is(err, errIncomplete):
		f.refuse(w, r, http.StatusBadRequest, blog.Invalid, err.Error())
	default:
		f.fail(w, r, err)
	}
}

// fail responds to a request that failed through no fault of the client, and logs it.
func (f *Files) fail(w http.ResponseWriter, r *http.Request, err error) {
	f.o.Logger.ErrorContext(r.Context(), "serving a picture failed", "path", r.URL.Path, "error", err)
	f.refuse(w, r, http.StatusInternalServerError, blog.Internal, "internal server error")
}

// refuse responds with an error.
func (f *Files) refuse(w http.ResponseWriter, r *http.Request, status int, code blog.Code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return
	}
	type response struct {
		Code    blog.Code `json:"code"`
		Message string    `json:"message"`
	}
	_ = json.NewEncoder(w).Encode(map[string]response{"error": {code, message}}) // the client may be gone
}
