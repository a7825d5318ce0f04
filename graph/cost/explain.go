package cost

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/validator"

	"byline/graph/document"
	"byline/graph/fields"
	"byline/graph/globalid"
	"byline/graph/refusal"
	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos"
)

// Explanation says what an operation, or each event of a subscription, reads and writes: the
// prediction that budgets use, for full pages and an authenticated viewer.
type Explanation struct {
	Operation   string           `json:"operation"` // "" if it has no name
	Type        string           `json:"type"`
	PredictedRU float64          `json:"predictedRU"`
	Fields      []ExplainedField `json:"fields"`            // that read or write
	Missing     []string         `json:"missing,omitempty"` // required variables without a value
	Wrong       string           `json:"wrong,omitempty"`   // the path of a field with an invalid page size or id, which reads nothing
	Refused     string           `json:"refused,omitempty"` // why a server with the default limits refuses it
}

// ExplainedField is a field that reads or writes.
type ExplainedField struct {
	Path     string             `json:"path"` // in the response, without list indexes
	Pattern  string             `json:"pattern"`
	Times    float64            `json:"times"` // or the number of its keys, of which a batch reads up to 100
	RU       float64            `json:"ru"`    // in total
	Requests []ExplainedRequest `json:"requests"`
}

// ExplainedRequest is an operation on Cosmos DB that resolves a field.
type ExplainedRequest struct {
	Kind         string `json:"kind"`
	Container    string `json:"container"`
	PartitionKey string `json:"partitionKey"` // the value, or its source
}

// Explain explains the operations of a document, with variables as JSON, or none, for a feed
// with feedPartitions partitions. It reads nothing. An error names the line and column of the
// document.
func Explain(schema *ast.Schema, text string, variables []byte, feedPartitions int) ([]Explanation, error) {
	given := document.Object{}
	if len(variables) > 0 {
		switch err := document.Decode(string(variables), &given); {
		case errors.Is(err, document.ErrNoObject):
			return nil, fmt.Errorf("the variables are %w", document.ErrNoObject)
		case err != nil:
			return nil, fmt.Errorf("the variables are %w: %w", document.ErrNoObject, err)
		}
	}
	parsed, err := document.Parse(schema, text)
	if err != nil {
		return nil, located(err)
	}
	var all []Explanation
	for _, operation := range parsed.Operations {
		e := explainer{variables: map[string]any{}, feedPartitions: feedPartitions}
		explanation := Explanation{Operation: operation.Name, Type: string(operation.Operation),
			Fields: []ExplainedField{}}
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
			if err := document.CheckVariables(schema,
				&graphql.OperationContext{Doc: parsed, Operation: operation, Variables: e.variables}); err != nil {
				return nil, located(err)
			}
		}
		if len(given) == 0 && len(e.variables) == 0 {
			e.variables = nil // unknown
		}
		p := Predict(operation, e.variables, true, Blog{FeedPartitions: feedPartitions})
		explanation.PredictedRU = twoDecimals(p.RU)
		if p.invalid != nil && len(explanation.Missing) == 0 {
			explanation.Wrong = p.invalid.path()
		}
		if refused := cmp.Or(p.refusal(defaultPerRequest), p.response.refusal()); refused != nil {
			explanation.Refused = refused.Message
		}
		for _, f := range p.fields {
			explanation.Fields = append(explanation.Fields, e.field(f))
		}
		all = append(all, explanation)
	}
	return all, nil
}

// located returns the error of a document with its line and column.
func located(err error) error {
	var in *gqlerror.Error
	if !errors.As(err, &in) {
		return err
	}
	message := in.Message
	if in.Err != nil {
		var refused *refusal.Error
		if errors.As(in.Err, &refused) {
			message = refused.Message
			if refused.Code == refusal.BadUserInput && refused.Field != "" {
				message = "$" + refused.Field + ": " + message
			}
		}
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
	if f.evaluation {
		out.Pattern = "evaluation"
		return out
	}
	name := f.field.ObjectDefinition.Name + "." + f.field.Name
	switch name {
	case "Query.node":
		e.objects(&out, f, store.OneUser, store.OnePost, f.field.ArgumentMap(e.variables)["id"])
		return out
	case "Query.nodes":
		e.objects(&out, f, store.ManyUsers, store.ManyPosts,
			graphql.CoerceList(f.field.ArgumentMap(e.variables)["ids"])...)
		return out
	}
	a := rowOf(f.field, f.in, e.variables).Access
	out.Pattern = string(a.Pattern)
	for _, r := range a.Requests {
		kind := r.Kind
		if kind == cosmos.KindReadMany && f.times == 1 && r.Partition != fields.EachPost {
			kind = cosmos.KindPointRead // a batch of one key is a point read
		}
		out.Requests = append(out.Requests, ExplainedRequest{string(kind), r.Container, e.partition(f, r.Partition)})
	}
	return out
}

// objects explains node and nodes, whose reads depend on the kinds of the ids.
func (e explainer) objects(out *ExplainedField, f *fieldCost, users, posts cosmos.Pattern, ids ...any) {
	of := map[globalid.Kind][]globalid.ID{}
	for _, v := range ids {
		text, given := v.(string)
		if !given { // a variable without a value
			out.Pattern = "oneUser, onePost, oneComment, oneLike or oneTag"
			out.Requests = []ExplainedRequest{{string(cosmos.KindPointRead), "users, posts or feed",
				e.argument(f.field, "id")}}
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
	}{
		{globalid.User, users, "users"},
		{globalid.Post, posts, "posts"},
		{globalid.Comment, store.OneComment, "posts"},
		{globalid.Like, store.OneLike, "posts"},
		{globalid.Tag, store.OneTag, "feed"},
	} {
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

// partitionOf returns the partition key of the item that an id names.
func partitionOf(id globalid.ID) string {
	if id.Kind == globalid.Tag {
		return blog.TimelinesKey
	}
	return cmp.Or(id.Parent, id.Key)
}

// partition returns the value of a partition key, or its source.
func (e explainer) partition(f *fieldCost, source fields.Partition) string {
	switch {
	case source == fields.OneFeedPartition:
		return e.feed("one of ")
	case source == fields.EachFeedPartition:
		return e.feed("each of ")
	case source == fields.Object:
		return e.partitionOfObject(f.in)
	case source == fields.Timelines:
		return blog.TimelinesKey
	case source == fields.MonthOfAll:
		return blog.AllPosts.Partition("<month>")
	case source == fields.Month && isTotal(f.field):
		return e.partition(f.in, source)
	case source == fields.Month:
		return blog.AllPosts.Partition(e.argument(f.field, "month"))
	case source == fields.MonthOfTag && f.in.field.Name == "tag":
		return e.timeline(f.in).Partition("<month>")
	case source == "username", source == "input.username":
		return "username:" + strings.ToLower(e.argument(f.field, string(source)))
	case source == "slug":
		return e.partitionOfSlug(f.field)
	case !strings.HasPrefix(string(source), "("):
		return e.argument(f.field, string(source))
	}
	return string(source)
}

// feed describes the partition keys of the feed.
func (e explainer) feed(which string) string {
	all := blog.FeedPartitionKeys(e.feedPartitions)
	if len(all) == 1 {
		return all[0]
	}
	return "(" + which + all[0] + " to " + all[len(all)-1] + ")"
}

// timeline returns the timeline of the tag that a field selects by name.
func (e explainer) timeline(f *fieldCost) blog.Timeline {
	name := e.argument(f.field, "name")
	if key, ok := blog.TagKey(name); ok {
		return blog.TagTimeline(key)
	}
	return blog.TagTimeline("") + blog.Timeline(name)
}

// partitionOfObject returns the partition key of a field's object, or its source.
func (e explainer) partitionOfObject(f *fieldCost) string {
	if f.field.ObjectDefinition.Name == "Query" {
		switch f.field.Name {
		case "viewer":
			return string(fields.Viewer)
		case "user", "post", "node":
			return e.argument(f.field, "id")
		case "postBySlug":
			return e.partitionOfSlug(f.field)
		}
	}
	return "(each of " + f.path() + ")"
}

// partitionOfSlug returns the partition key of the post with a slug.
func (e explainer) partitionOfSlug(f *ast.Field) string {
	slug := e.argument(f, "slug")
	return cmp.Or(blog.PostIDOfSlug(slug), slug)
}

// argument returns the value of an argument, or of a member of it: if that is an id, its partition
// key; if it has no value, the variable.
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
	literal := f.Arguments.ForName(name).Value
	if literal.Kind == ast.ObjectValue {
		literal, member = literal.Children.ForName(member), ""
	}
	if literal == nil {
		return "(" + path + ")"
	}
	text := literal.String()
	if nested && member != "" {
		text += "." + member
	}
	return text
}
