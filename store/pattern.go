package store

import "context"

// Pattern is what requests to Cosmos DB are made for. The set is closed: there is a
// series of each metric for each of them.
type Pattern uint8

// The patterns: the article's ten, what the edge reads beside them, and what happens
// behind the requests.
const (
	Q1 Pattern = iota // a user
	Q2                // a post
	Q3                // a user's posts
	Q4                // a post's comments
	Q5                // a post's likes
	Q6                // the feed
	C1                // create or edit a user
	C2                // create or edit a post
	C3                // create a comment
	C4                // like a post

	ByUsername    // a user by name
	ManyUsers     // several users at once
	ManyPosts     // several posts at once
	ManyLikes     // whether a user likes each of several posts
	OneComment    // a comment
	OneLike       // a like
	DeletePost    // with what belongs to it
	EditComment   //
	DeleteComment //
	UnlikePost    //
	Subscribe     // whether the post to follow exists

	ProjectPosts     // changes of posts to their copies
	ProjectUsers     // changes of users to what they have written
	ProjectUsernames // reservations of usernames that nobody uses
	ChangeFeed       // reading it, whoever does
	Leases           // who projects what, and how far
	Verify           // and the status of the projections
	Repair           // and rebuild
	Readiness        // and whether there is anything at all
	Metadata         // accounts, databases, containers, partition key ranges
	Unnamed          // none of these

	patterns
)

var patternNames = [patterns]string{
	"Q1", "Q2", "Q3", "Q4", "Q5", "Q6", "C1", "C2", "C3", "C4",
	"byUsername", "manyUsers", "manyPosts", "manyLikes", "oneComment", "oneLike",
	"deletePost", "editComment", "deleteComment", "unlikePost", "subscribe",
	"projectPosts", "projectUsers", "projectUsernames", "changeFeed", "leases",
	"verify", "repair", "readiness", "metadata", "unnamed",
}

// String returns the name, as metrics have it.
func (p Pattern) String() string { return patternNames[p] }

// scope is what the requests of a context are for, and who else wants to know of them.
type scope struct {
	pattern Pattern
	record  func(context.Context, *Operation) // nil: nobody
}

type scopeKey struct{}

func scopeOf(ctx context.Context) scope {
	if s, ok := ctx.Value(scopeKey{}).(scope); ok {
		return s
	}
	return scope{pattern: Unnamed}
}

// WithRecorder has record called with every operation on Cosmos DB that ends in ctx,
// and with the context that the operation was made with. It may be called by several
// goroutines at once, and must not keep the operation.
func WithRecorder(ctx context.Context, record func(context.Context, *Operation)) context.Context {
	return context.WithValue(ctx, scopeKey{}, scope{Unnamed, record})
}

// patterned names what the requests of ctx are for, unless they are part of something
// that has a name already.
func patterned(ctx context.Context, p Pattern) context.Context {
	s := scopeOf(ctx)
	if s.pattern != Unnamed {
		return ctx
	}
	s.pattern = p
	return context.WithValue(ctx, scopeKey{}, s)
}

// begin is patterned, and counts what begins.
func (s *Store) begin(ctx context.Context, p Pattern) context.Context {
	begun := patterned(ctx, p)
	if begun != ctx {
		s.o.Meter.patterns[p].begun.Inc()
		noteBegun(ctx, p)
	}
	return begun
}
