package store_test

import (
	"context"
	"fmt"

	"byline/store"
	"byline/store/cosmos"
	"byline/store/emulator"
)

// A blog on an engine in memory.
func Example() {
	ctx := context.Background()
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	engine, err := emulator.Open("", emulator.Options{})
	must(err)
	defer engine.Close()
	account, err := cosmos.Open(cosmos.Options{Endpoint: engine.Endpoint(), Credential: engine.Credential(),
		Transport: engine})
	must(err)
	blog, err := store.New(account, store.Options{})
	must(err)
	must(blog.Provision(ctx))
	ada, err := blog.CreateUser(ctx, store.NewUser{ID: "ada", Username: "ada"})
	must(err)
	_, err = blog.CreatePost(ctx, store.NewPost{AuthorID: ada.UserID, Title: "Notes", Content: "On the engine."})
	must(err)
	feed, err := blog.Feed(ctx, store.Paging{First: 10})
	must(err)
	fmt.Println(feed.Items[0].Title, "by", feed.Items[0].Username)
	// Output: Notes by ada
}
