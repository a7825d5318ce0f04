package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/google/go-cmp/cmp"

	"byline/internal/enginetest"
	"byline/store/emulator"
)

// TestPatchIsWhatAzcosmosSends: but for the condition, which azcosmos would not escape.
func TestPatchIsWhatAzcosmosSends(t *testing.T) {
	var p patch
	var want azcosmos.PatchOperations
	for _, value := range []any{"", "a \"text\" \u2028 é <b> \\", Date("2026-01-02T03:04:05.678Z"), 7, int32(-8), int64(9), true, false} {
		p.set("/a b", value)
		want.AppendSet("/a b", value)
	}
	p.increment("/n", -1)
	want.AppendIncrement("/n", -1)
	for _, condition := range []string{"", `from c where c.a = 'b'`} {
		if p.condition = condition; condition != "" {
			want.SetCondition(condition)
		}
		var sent, azure any
		b, err := json.Marshal(want)
		if err := errors.Join(err, json.Unmarshal(b, &azure), json.Unmarshal(p.appendTo(nil), &sent)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(azure, sent); diff != "" {
			t.Error(diff)
		}
	}
	p.condition = `from c where c.a = "\"" `
	var sent struct{ Condition string }
	if err := json.Unmarshal(p.appendTo(nil), &sent); err != nil || sent.Condition != p.condition {
		t.Errorf("%q, %v", sent.Condition, err)
	}
}

// TestClientWithoutBodies: what the Store encodes would never be sent, so nothing is done, and
// nobody should try again.
func TestClientWithoutBodies(t *testing.T) {
	with := enginetest.Client(t, emulator.Options{}, azcore.ClientOptions{})
	s, err := New(with, with, Options{})
	if err == nil {
		err = s.Provision(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	item := []byte(`{"id":"i","postId":"p"}`)
	if _, err := s.posts.CreateItem(t.Context(), key("p"), item, nil); err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func() error{
		"batch": func() error {
			_, _, err := CreateAll(t.Context(), s.posts, "p", [][]byte{[]byte(`{"id":"other","postId":"p"}`)})
			return err
		},
		"patch": func() error {
			var p patch
			p.set("/a", 1)
			_, err := patchItem(t.Context(), s.posts, "p", "i", p, nil)
			return err
		},
		"list": func() error {
			_, err := s.Feed(t.Context(), Paging{First: 1})
			return err
		},
		"change feed": func() error {
			_, err := readChangeFeed(t.Context(), s.posts, &azcosmos.ChangeFeedOptions{FeedRange: &azcosmos.FeedRange{MaxExclusive: "FF"}})
			return err
		},
	} {
		var e *Error
		if err := do(); !errors.Is(err, errNoBodies) || !errors.As(cosmosError("x", err), &e) || e.Code != Internal {
			t.Errorf("%s: %v", name, err)
		}
	}
	got, err := s.posts.ReadItem(t.Context(), key("p"), "i", nil)
	if err != nil || !bytes.HasPrefix(got.Value, item[:len(item)-1]) {
		t.Errorf("%s, %v", got.Value, err)
	}
	if _, err := s.posts.ReadItem(t.Context(), key("p"), "other", nil); !isMissing(err) {
		t.Error("the batch was executed:", err)
	}
}
