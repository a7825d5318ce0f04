package files

import (
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"byline/store/blog"
)

// maxRecentUsers is how many users a recent tracks, at up to 10 kB each. The least recent one is evicted.
const maxRecentUsers = 1 << 11

// recent are the uploads that users have created at this instance in the last hour. They limit how many a user can
// create, and count those that may still arrive. It is safe for concurrent use.
type recent struct {
	mu    sync.Mutex
	users *simplelru.LRU[string, []creation] // guarded by mu; each in the order of time
}

// creation is an upload that was created.
type creation struct {
	at time.Time
	id blog.FileID // "" if it cannot arrive
}

func newRecent() *recent {
	users, _ := simplelru.NewLRU[string, []creation](maxRecentUsers, nil) // fails only for sizes below 1
	return &recent{users: users}
}

// add adds an upload. If the user has created too many it adds none, and returns when the user can create the next one.
func (r *recent) add(userID string, id blog.FileID, now time.Time) (until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all, _ := r.users.Get(userID)
	all = slices.DeleteFunc(all, func(c creation) bool { return now.Sub(c.at) >= time.Hour })
	if len(all) < uploadsPerHour {
		all = append(all, creation{now, id})
	} else {
		until = all[0].at.Add(time.Hour)
	}
	r.users.Add(userID, all)
	return until
}

// cancel says that an upload cannot arrive. It still counts as one of the hour.
func (r *recent) cancel(userID string, id blog.FileID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all, _ := r.users.Get(userID)
	for i := range all {
		if all[i].id == id {
			all[i].id = ""
		}
	}
}

// pending returns the uploads of a user whose requests have not expired.
func (r *recent) pending(userID string, now time.Time) (ids []blog.FileID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all, _ := r.users.Get(userID)
	for _, c := range all {
		if c.id != "" && now.Sub(c.at) < uploadTime {
			ids = append(ids, c.id)
		}
	}
	return ids
}
