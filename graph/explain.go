package graph

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/validator"

	"byline/graph/globalid"
	"byline/store"
	"byline/store/cosmos"
)

// Explanation is what an operation is going to do, or each event of a subscription: the
// prediction that the cost limit goes by, of full pages and for somebody signed in.
type Explanation struct {
	Operation   string           `json:"operation"` // "" if it has no name
	Type        string           `json:"type"`
	PredictedRU float64          `json:"predictedRU"`
	Fields      []ExplainedField `json:"fields"`            // that read or write
	Missing     []string         `json:"missing,omitempty"` // variables that it needs and were not given
	Wrong       string           `json:"wrong,omitempty"`   // the path of a field that is refused for its page size or its ids, and so reads nothing
	Refused     string           `json:"refused,omitempty"` // why, by a server with the default limits
}

// ExplainedField is what a field is going to do.
type ExplainedField struct {
	Path     string             `json:"path"` // in the response, but for list indexes
	Pattern  string             `json:"pattern"`
	Times    float64            `json:"times"` // or how many keys it needs, of which one batch reads up to 100
	RU       float64            `json:"ru"`    // of all times
	Requests []ExplainedRequest `json:"requests"`
}

// ExplainedRequest is an operation on Cosmos DB that a field is made of.
type ExplainedRequest struct {
	Kind         string `json:"kind"`
	Container    string `json:"container"`
	PartitionKey string `json:"partitionKey"` // its value, or where it comes from
}

// access is what a field does, each time.
type access struct {
	pattern  cosmos.Pattern
	requests []accessRequest
}

type accessRequest struct {
	kind      cosmos.Kind
	container string
	partition partitionSource
}

// partitionSource is where the value of a partition key comes from: the path of an
// argument, or one of these.
type partitionSource string

const (
	ofObject partitionSource = "(object)" // that the field is selected of
	ofViewer partitionSource = "(viewer)"
	ofOwner  partitionSource = "(the name's owner)"
	ofNew    partitionSource = "(new)"
	ofFeed   partitionSource = "(feed)"      // one of its partitions
	inFeed   partitionSource = "(all of it)" // each of them
	oldName  partitionSource = "(username:<old name>)"
)

// accesses are those of the fields that have prices, but for node and nodes, whose
// depend on the ids.
var accesses = map[string]access{
	"Query.user":           {store.Q1, []accessRequest{{cosmos.KindPointRead, "users", "id"}}},
	"Query.viewer":         {store.Q1, []accessRequest{{cosmos.KindPointRead, "users", ofViewer}}},
	"Query.userByUsername": {store.ByUsername, []accessRequest{{cosmos.KindPointRead, "users", "username"}, {cosmos.KindPointRead, "users", ofOwner}}},
	"Query.post":           {store.Q2, []accessRequest{{cosmos.KindPointRead, "posts", "id"}}},
	"Query.feed":           {store.Q6, []accessRequest{{cosmos.KindQuery, "feed", ofFeed}}},
	"User.posts":           {store.Q3, []accessRequest{{cosmos.KindQuery, "users", ofObject}}},
	"User.createdAt":       {store.ManyUsers, []accessRequest{{cosmos.KindReadMany, "users", ofObject}}},
	"Post.comments":        {store.Q4, []accessRequest{{cosmos.KindQuery, "posts", ofObject}}},
	"Post.likes":           {store.Q5, []accessRequest{{cosmos.KindQuery, "posts", ofObject}}},
	"Post.content":         {store.ManyPosts, []accessRequest{{cosmos.KindReadMany, "posts", ofObject}}},
	"Post.viewerHasLiked":  {store.ManyLikes, []accessRequest{{cosmos.KindReadMany, "posts", ofObject}}},
	"Comment.post":         {store.ManyPosts, []accessRequest{{cosmos.KindReadMany, "posts", ofObject}}},
	"Like.post":            {store.ManyPosts, []accessRequest{{cosmos.KindReadMany, "posts", ofObject}}},

	"Mutation.createUser": {store.C1, []accessRequest{{cosmos.KindPointRead, "users", ofViewer}, {cosmos.KindCreate, "users", "input.username"}, {cosmos.KindCreate, "users", ofViewer}}},
	"Mutation.updateUser": {store.C1, []accessRequest{{cosmos.KindPointRead, "users", ofViewer}, {cosmos.KindCreate, "users", "input.username"}, {cosmos.KindPointRead, "users", oldName},
		{cosmos.KindReplace, "users", oldName}, {cosmos.KindPatch, "users", ofViewer}, {cosmos.KindReplace, "users", oldName}}},
	"Mutation.createPost": {store.C2, []accessRequest{{cosmos.KindPointRead, "users", ofViewer}, {cosmos.KindCreate, "posts", ofNew}, {cosmos.KindCreate, "users", ofViewer}, {cosmos.KindCreate, "feed", inFeed}}},
	"Mutation.updatePost": {store.C2, []accessRequest{{cosmos.KindPatch, "posts", "input.id"}, {cosmos.KindPatch, "users", ofViewer}, {cosmos.KindPatch, "feed", inFeed}}},
	"Mutation.deletePost": {store.DeletePost, []accessRequest{{cosmos.KindPatch, "posts", "input.id"}, {cosmos.KindPatch, "users", ofViewer}, {cosmos.KindPatch, "feed", inFeed},
		{cosmos.KindQuery, "posts", "input.id"}, {cosmos.KindBatch, "posts", "input.id"}}},
	"Mutation.createComment": {store.C3, []accessRequest{{cosmos.KindPointRead, "users", ofViewer}, {cosmos.KindBatch, "posts", "input.postId"}}},
	"Mutation.updateComment": {store.EditComment, []accessRequest{{cosmos.KindPatch, "posts", "input.id"}}},
	"Mutation.deleteComment": {store.DeleteComment, []accessRequest{{cosmos.KindBatch, "posts", "input.id"}}},
	"Mutation.likePost":      {store.C4, []accessRequest{{cosmos.KindPointRead, "users", ofViewer}, {cosmos.KindBatch, "posts", "input.postId"}}},
	"Mutation.unlikePost":    {store.UnlikePost, []accessRequest{{cosmos.KindPointRead, "users", ofViewer}, {cosmos.KindBatch, "posts", "input.postId"}}},
}

// Explain says what the operations of a document are going to do, given variables as
// JSON, or none, with a feed that is spread over so many partitions. It reads nothing.
// The error says what is wrong with the document, and where.
func Explain(document string, variables []byte, feedPartitions int) ([]Explanation, error) {
	given := inputs{}
	if len(variables) > 0 {
		switch err := decode(string(variables), &given); {
		case errors.Is(err, errNoObject):
			return nil, fmt.Errorf("the variables are %w", errNoObject)
		case err != nil:
			return nil, fmt.Errorf("the variables are %w: %w", errNoObject, err)
		}
	}
	schema := servedSchema(true)
	parsed, err := readDocument(schema, document)
	if err != nil {
		return nil, located(err)
	}
	var all []Explanation
	for _, operation := range parsed.Operations {
		e := explainer{variables: map[string]any{}, feedPartitions: feedPartitions}
		explanation := Explanation{Operation: operation.Name, Type: string(operation.Operation), Fields: []ExplainedField{}}
		for _, v := range operation.VariableDefinitions {
			value, ok := given[v.Variable]
			if !ok && v.DefaultValue != nil {
				value, err = v.DefaultValue.Value(nil)
				ok = err == nil
			}
			if ok {
				e.variables[v.Variable] = value
			} else if v.Type.NonNull {
				explanation.Missing = append(explanation.Missing, v.Variable)
			}
		}
		if len(explanation.Missing) == 0 {
			if e.variables, err = validator.VariableValues(schema, operation, e.variables); err != nil {
				return nil, located(err)
			}
			for _, check := range []graphql.OperationContextMutator{nullsInPlace{}, strictVariables{schema}, oneStream{}} {
				if err := check.MutateOperationContext(context.Background(), &graphql.OperationContext{Doc: parsed, Operation: operation, Variables: e.variables}); err != nil {
					return nil, located(err)
				}
			}
		}
		p := predict(operation, e.variables, true, feedPartitions)
		explanation.PredictedRU = twoDecimals(p.total)
		if p.wrong != nil && len(explanation.Missing) == 0 {
			explanation.Wrong = p.wrong.path()
		}
		if refused := cmp.Or(p.refusal(defaultPerRequest), p.answer.refusal()); refused != nil {
			explanation.Refused = refused.message
		}
		for _, f := range p.fields {
			explanation.Fields = append(explanation.Fields, e.field(f))
		}
		all = append(all, explanation)
	}
	return all, nil
}

// located is what is wrong with a document, and where.
func located(err error) error {
	var in *gqlerror.Error
	if !errors.As(err, &in) {
		return err
	}
	message := in.Message
	if in.Err != nil {
		message = classify(in.Err).message
	}
	if len(in.Locations) == 0 {
		return errors.New(message)
	}
	return fmt.Errorf("line %d, column %d: %s", in.Locations[0].Line, in.Locations[0].Column, message)
}

func twoDecimals(n float64) float64 { return math.Round(n*100) / 100 }

type explainer struct {
	variables      map[string]any
	feedPartitions int
}

func (e explainer) field(f *fieldCost) ExplainedField {
	out := ExplainedField{Path: f.path(), Times: f.times, RU: twoDecimals(f.ru)}
	name := f.field.ObjectDefinition.Name + "." + f.field.Name
	switch name {
	case "Query.node":
		e.objects(&out, f, store.Q1, store.Q2, f.field.ArgumentMap(e.variables)["id"])
		return out
	case "Query.nodes":
		e.objects(&out, f, store.ManyUsers, store.ManyPosts, graphql.CoerceList(f.field.ArgumentMap(e.variables)["ids"])...)
		return out
	}
	a := accesses[name]
	out.Pattern = string(a.pattern)
	for _, r := range a.requests {
		kind := r.kind
		if kind == cosmos.KindReadMany && f.times == 1 {
			kind = cosmos.KindPointRead // which is what a batch of one is
		}
		out.Requests = append(out.Requests, ExplainedRequest{string(kind), r.container, e.partition(f, r.partition)})
	}
	return out
}

// objects explains node and nodes, which read whatever the ids are of.
func (e explainer) objects(out *ExplainedField, f *fieldCost, users, posts cosmos.Pattern, ids ...any) {
	of := map[globalid.Kind][]globalid.ID{}
	for _, v := range ids {
		text, given := v.(string)
		if !given { // a variable has no value
			out.Pattern = "Q1, Q2, oneComment or oneLike"
			out.Requests = []ExplainedRequest{{string(cosmos.KindPointRead), "users or posts", e.argument(f.field, "id")}}
			return
		}
		if id, err := globalid.Parse(text); err == nil {
			of[id.Kind] = append(of[id.Kind], id)
		}
	}
	var patterns []string
	for _, k := range []struct {
		kind      globalid.Kind
		pattern   cosmos.Pattern
		container string
	}{{globalid.User, users, "users"}, {globalid.Post, posts, "posts"}, {globalid.Comment, store.OneComment, "posts"}, {globalid.Like, store.OneLike, "posts"}} {
		found := of[k.kind]
		if len(found) == 0 {
			continue
		}
		r := ExplainedRequest{string(cosmos.KindPointRead), k.container, partitionOf(found[0])}
		if len(found) > 1 {
			r.PartitionKey = fmt.Sprintf("(each of %d ids)", len(found))
			if k.pattern == users || k.pattern == posts {
				r.Kind = string(cosmos.KindReadMany)
			}
		}
		patterns, out.Requests = append(patterns, string(k.pattern)), append(out.Requests, r)
	}
	out.Pattern = strings.Join(patterns, ", ")
}

func partitionOf(id globalid.ID) string { return cmp.Or(id.Parent, id.Key) }

// partition is the value of a partition key, or where it comes from.
func (e explainer) partition(f *fieldCost, source partitionSource) string {
	switch {
	case source == ofFeed:
		return e.feed("one of ")
	case source == inFeed:
		return e.feed("each of ")
	case source == ofObject:
		return e.partitionOfObject(f.in)
	case source == "username", source == "input.username":
		return "username:" + strings.ToLower(e.argument(f.field, string(source)))
	case !strings.HasPrefix(string(source), "("):
		return e.argument(f.field, string(source))
	}
	return string(source)
}

// feed names the feed's partitions.
func (e explainer) feed(which string) string {
	all := store.FeedPartitionKeys(e.feedPartitions)
	if len(all) == 1 {
		return all[0]
	}
	return "(" + which + all[0] + " to " + all[len(all)-1] + ")"
}

// partitionOfObject is the partition key of the object that a field yields.
func (e explainer) partitionOfObject(f *fieldCost) string {
	if f.field.ObjectDefinition.Name == "Query" {
		switch f.field.Name {
		case "viewer":
			return string(ofViewer)
		case "user", "post", "node":
			return e.argument(f.field, "id")
		}
	}
	return "(each of " + f.path() + ")"
}

// argument is the value of an argument, or of a field of it: the partition key if that
// is an id; and the variable's name if it is not known.
func (e explainer) argument(f *ast.Field, path string) string {
	name, member, nested := strings.Cut(path, ".")
	value := f.ArgumentMap(e.variables)[name]
	if input, ok := value.(map[string]any); ok && nested {
		value = input[member]
	}
	if text, ok := value.(string); ok {
		if id, err := globalid.Parse(text); err == nil {
			return partitionOf(id)
		}
		return text
	}
	written := f.Arguments.ForName(name).Value
	if written.Kind == ast.ObjectValue {
		written, member = written.Children.ForName(member), ""
	}
	if written == nil {
		return "(" + path + ")"
	}
	text := written.String()
	if nested && member != "" {
		text += "." + member
	}
	return text
}
