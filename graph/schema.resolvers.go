package graph

import (
	"context"
	"fmt"

	"byline/graph/generated"
	"byline/graph/globalid"
	"byline/graph/model"
	"byline/graph/names"
	"byline/graph/plan"
	"byline/graph/refusal"
	"byline/graph/transport"
	"byline/store"
	"byline/store/blog"
	"byline/store/files"
	"byline/store/live"
)

func (r *commentResolver) ID(ctx context.Context, obj *blog.Comment) (string, error) {
	return commentGlobalID(obj), nil
}

func (r *commentResolver) Post(ctx context.Context, obj *blog.Comment) (*blog.Post, error) {
	return loadersOf(ctx).post(ctx, obj.PostID)
}

func (r *commentResolver) Author(ctx context.Context, obj *blog.Comment) (*names.User, error) {
	return names.From(ctx).User(blog.User{Byline: obj.Byline}), nil
}

func (r *commentResolver) ContentHTML(ctx context.Context, obj *blog.Comment) (string, error) {
	return r.texts(ctx).HTML(obj.Content)
}

func (r *commentResolver) ViewerCanUpdate(ctx context.Context, obj *blog.Comment) (bool, error) {
	return viewerCan(ctx, "updateComment", obj.UserID), nil
}

func (r *commentResolver) ViewerCanDelete(ctx context.Context, obj *blog.Comment) (bool, error) {
	return viewerCan(ctx, "deleteComment", obj.UserID), nil
}

func (r *commentChangedPayloadResolver) CommentEdge(ctx context.Context, obj *live.CommentChange) (*model.CommentEdge, error) {
	if obj.Kind != live.Added {
		return nil, nil
	}
	return r.commentEdge(obj.Comment), nil
}

func (r *commentChangedPayloadResolver) DeletedCommentID(ctx context.Context, obj *live.CommentChange) (*string, error) {
	if obj.Kind != live.Deleted {
		return nil, nil
	}
	id := globalid.OfComment(obj.PostID, obj.ID).String()
	return &id, nil
}

func (r *likeResolver) ID(ctx context.Context, obj *blog.Like) (string, error) {
	return likeGlobalID(obj), nil
}

func (r *likeResolver) Post(ctx context.Context, obj *blog.Like) (*blog.Post, error) {
	return loadersOf(ctx).post(ctx, obj.PostID)
}

func (r *likeResolver) User(ctx context.Context, obj *blog.Like) (*names.User, error) {
	return names.From(ctx).User(blog.User{Byline: obj.Byline}), nil
}

func (r *mutationResolver) CreateUser(ctx context.Context, input model.CreateUserInput) (*model.CreateUserPayload, error) {
	key, keyErr := idempotencyKey(input.IdempotencyKey)
	n := store.NewUser{ID: viewerID(ctx), Username: input.Username, Key: key}
	if err := inputErrors(ctx, n.Validate(), keyErr); err != nil {
		return nil, err
	}
	user, err := r.store.CreateUser(ctx, n)
	if err != nil {
		return nil, err
	}
	return &model.CreateUserPayload{User: names.From(ctx).User(*user)}, nil
}

func (r *mutationResolver) UpdateUser(ctx context.Context, input model.UpdateUserInput) (*model.UpdateUserPayload, error) {
	edit := store.UserEdit{Username: required(input.Username), DisplayName: optional(input.DisplayName),
		AvatarURL: optional(input.AvatarURL), Bio: optional(input.Bio)}
	var avatarErr error
	if id := input.Avatar.Value(); id != nil {
		edit.AvatarURL.Set = true
		edit.AvatarURL.Value, avatarErr = addressOf("avatar", id, input.AvatarURL)
	}
	if err := inputErrors(ctx, edit.Validate(), avatarErr); err != nil {
		return nil, err
	}
	user, err := r.store.UpdateUser(ctx, viewerID(ctx), edit)
	if err != nil {
		if input.Avatar.Value() != nil {
			err = inField("avatar", "avatarUrl", err)
		}
		return nil, inputErrors(ctx, r.explainRefusal(ctx, err))
	}
	shown := names.From(ctx)
	shown.Set(user.Byline)
	return &model.UpdateUserPayload{User: shown.User(*user)}, nil
}

func (r *mutationResolver) DeleteUser(ctx context.Context, input model.DeleteUserInput) (*model.DeleteUserPayload, error) {
	userID := viewerID(ctx)
	if id := input.ID.Value(); id != nil {
		var err error
		if userID, err = parseIDOf(globalid.User, "id", *id); err != nil {
			return nil, err
		}
	}
	if userID != viewerID(ctx) && !moderates(ctx) {
		return nil, &refusal.Error{Code: refusal.Forbidden, Reason: blog.ReasonNotYours,
			Message: "only a moderator can delete another user"}
	}
	if err := r.store.DeleteUser(ctx, userID, input.Username); err != nil {
		return nil, err
	}
	return &model.DeleteUserPayload{DeletedUserID: userGlobalID(userID)}, nil
}

func (r *mutationResolver) CreateUpload(ctx context.Context, input model.CreateUploadInput) (*model.CreateUploadPayload, error) {
	upload, err := r.store.CreateUpload(ctx, viewerID(ctx), input.ContentType, int64(input.Size))
	if err != nil {
		return nil, inputErrors(ctx, err)
	}
	return &model.CreateUploadPayload{Upload: upload}, nil
}

func (r *mutationResolver) CreatePost(ctx context.Context, input model.CreatePostInput) (*model.CreatePostPayload, error) {
	key, keyErr := idempotencyKey(input.IdempotencyKey)
	n := store.NewPost{AuthorID: viewerID(ctx), Title: input.Title, Content: input.Content, Tags: input.Tags.Value(),
		SEOTitle: optional(input.SeoTitle).Value, SEODescription: optional(input.SeoDescription).Value,
		CanonicalURL: optional(input.CanonicalURL).Value, Key: key}
	url, alt, coverErr := cover(input.CoverImage)
	if url != nil {
		n.CoverURL, n.CoverAlt = *url, *alt
	}
	if err := inputErrors(ctx, n.Validate(), coverErr, keyErr); err != nil {
		return nil, err
	}
	create := r.store.CreatePost
	if draft := input.Draft.Value(); draft != nil && *draft {
		create = r.store.CreateDraft
	}
	post, err := create(ctx, n)
	if err != nil {
		return nil, inputErrors(ctx, inField(coverField(input.CoverImage), "coverImage", err))
	}
	edge := r.postEdge(ctx, post)
	return &model.CreatePostPayload{Post: edge.Node, PostEdge: edge}, nil
}

func (r *mutationResolver) UpdatePost(ctx context.Context, input model.UpdatePostInput) (*model.UpdatePostPayload, error) {
	postID, idErr := parseIDOf(globalid.Post, "id", input.ID)
	edit := store.PostEdit{Title: required(input.Title), Content: required(input.Content),
		SEOTitle: required(input.SeoTitle), SEODescription: required(input.SeoDescription),
		CanonicalURL: required(input.CanonicalURL), Version: input.Version.Value()}
	if tags, set := input.Tags.ValueOK(); set {
		edit.Tags = &tags
	}
	var coverErr error
	edit.CoverURL, edit.CoverAlt, coverErr = cover(input.CoverImage)
	if err := inputErrors(ctx, idErr, edit.Validate(), coverErr); err != nil {
		return nil, err
	}
	post, err := r.store.EditPost(ctx, viewerID(ctx), postID, edit)
	if err != nil {
		err = inField(coverField(input.CoverImage), "coverImage", err)
		return nil, inputErrors(ctx, r.explainRefusal(ctx, err))
	}
	return &model.UpdatePostPayload{Post: primePost(ctx, post)}, nil
}

func (r *mutationResolver) PublishPost(ctx context.Context, input model.PublishPostInput) (*model.PublishPostPayload, error) {
	postID, err := parseIDOf(globalid.Post, "id", input.ID)
	if err != nil {
		return nil, err
	}
	post, err := r.store.PublishPost(ctx, viewerID(ctx), postID)
	if err != nil {
		return nil, err
	}
	edge := r.postEdge(ctx, post)
	return &model.PublishPostPayload{Post: edge.Node, PostEdge: edge}, nil
}

func (r *mutationResolver) DeletePost(ctx context.Context, input model.DeletePostInput) (*model.DeletePostPayload, error) {
	postID, err := parseIDOf(globalid.Post, "id", input.ID)
	if err != nil {
		return nil, err
	}
	remove := moderates(ctx)
	if remove {
		err = r.store.RemovePost(ctx, postID)
	}
	if !remove || blog.CodeOf(err) == blog.NotFound { // it may be a draft of the moderator's own
		if err = r.store.DeletePost(ctx, viewerID(ctx), postID); err != nil && !remove {
			err = r.explainRefusal(ctx, err)
		}
	}
	if err != nil {
		return nil, err
	}
	return &model.DeletePostPayload{DeletedPostID: input.ID}, nil
}

func (r *mutationResolver) CreateComment(ctx context.Context, input model.CreateCommentInput) (*model.CreateCommentPayload, error) {
	postID, idErr := parseIDOf(globalid.Post, "postId", input.PostID)
	key, keyErr := idempotencyKey(input.IdempotencyKey)
	n := store.NewComment{AuthorID: viewerID(ctx), PostID: postID, Content: input.Content, Key: key}
	if err := inputErrors(ctx, idErr, n.Validate(), keyErr); err != nil {
		return nil, err
	}
	comment, post, err := r.store.CreateComment(ctx, n)
	if err != nil {
		return nil, err
	}
	return &model.CreateCommentPayload{Comment: comment, CommentEdge: r.commentEdge(comment),
		Post: primePost(ctx, post)}, nil
}

func (r *mutationResolver) UpdateComment(ctx context.Context, input model.UpdateCommentInput) (*model.UpdateCommentPayload, error) {
	id, idErr := parseNestedID(globalid.Comment, "id", input.ID)
	if err := inputErrors(ctx, idErr, store.ValidateComment(input.Content)); err != nil {
		return nil, err
	}
	comment, err := r.store.EditComment(ctx, viewerID(ctx), id.Parent, id.Key, input.Content)
	if err != nil {
		return nil, r.explainRefusal(ctx, err)
	}
	return &model.UpdateCommentPayload{Comment: comment}, nil
}

func (r *mutationResolver) DeleteComment(ctx context.Context, input model.DeleteCommentInput) (*model.DeleteCommentPayload, error) {
	id, err := parseNestedID(globalid.Comment, "id", input.ID)
	if err != nil {
		return nil, err
	}
	var post *blog.Post
	if moderates(ctx) {
		post, err = r.store.RemoveComment(ctx, id.Parent, id.Key)
	} else if post, err = r.store.DeleteComment(ctx, viewerID(ctx), id.Parent, id.Key); err != nil {
		err = r.explainRefusal(ctx, err)
	}
	if err != nil {
		return nil, err
	}
	return &model.DeleteCommentPayload{DeletedCommentID: input.ID, Post: primePost(ctx, post)}, nil
}

func (r *mutationResolver) LikePost(ctx context.Context, input model.LikePostInput) (*model.LikePostPayload, error) {
	postID, err := parseIDOf(globalid.Post, "postId", input.PostID)
	if err != nil {
		return nil, err
	}
	like, post, err := r.store.LikePost(ctx, viewerID(ctx), postID)
	if err != nil {
		return nil, err
	}
	loadersOf(ctx).liked.prime(postID, true)
	return &model.LikePostPayload{Like: like, Post: primePost(ctx, post)}, nil
}

func (r *mutationResolver) UnlikePost(ctx context.Context, input model.UnlikePostInput) (*model.UnlikePostPayload, error) {
	postID, err := parseIDOf(globalid.Post, "postId", input.PostID)
	if err != nil {
		return nil, err
	}
	post, err := r.store.UnlikePost(ctx, viewerID(ctx), postID)
	if err != nil {
		return nil, err
	}
	loadersOf(ctx).liked.prime(postID, false)
	return &model.UnlikePostPayload{Post: primePost(ctx, post)}, nil
}

func (r *mutationResolver) FollowUser(ctx context.Context, input model.FollowUserInput) (*model.FollowUserPayload, error) {
	userID, err := parseIDOf(globalid.User, "id", input.ID)
	if err != nil {
		return nil, err
	}
	user, err := r.store.FollowUser(ctx, viewerID(ctx), userID)
	if err != nil {
		return nil, inputErrors(ctx, err)
	}
	return &model.FollowUserPayload{User: primeFollowed(ctx, user, true)}, nil
}

func (r *mutationResolver) UnfollowUser(ctx context.Context, input model.UnfollowUserInput) (*model.UnfollowUserPayload, error) {
	userID, err := parseIDOf(globalid.User, "id", input.ID)
	if err != nil {
		return nil, err
	}
	user, err := r.store.UnfollowUser(ctx, viewerID(ctx), userID)
	if err != nil {
		return nil, err
	}
	return &model.UnfollowUserPayload{User: primeFollowed(ctx, user, false)}, nil
}

func (r *mutationResolver) BookmarkPost(ctx context.Context, input model.BookmarkPostInput) (*model.BookmarkPostPayload, error) {
	postID, err := parseIDOf(globalid.Post, "id", input.ID)
	if err != nil {
		return nil, err
	}
	post, err := r.store.BookmarkPost(ctx, viewerID(ctx), postID)
	if err != nil {
		return nil, err
	}
	loadersOf(ctx).bookmarked.prime(postID, true)
	return &model.BookmarkPostPayload{Post: primePost(ctx, post)}, nil
}

func (r *mutationResolver) RemoveBookmark(ctx context.Context, input model.RemoveBookmarkInput) (*model.RemoveBookmarkPayload, error) {
	postID, err := parseIDOf(globalid.Post, "id", input.ID)
	if err != nil {
		return nil, err
	}
	post, err := r.store.RemoveBookmark(ctx, viewerID(ctx), postID)
	if err != nil {
		return nil, err
	}
	loadersOf(ctx).bookmarked.prime(postID, false)
	return &model.RemoveBookmarkPayload{Post: primePost(ctx, post)}, nil
}

func (r *postResolver) ID(ctx context.Context, obj *blog.Post) (string, error) {
	return postGlobalID(obj.ID), nil
}

func (r *postResolver) Excerpt(ctx context.Context, obj *blog.Post) (string, error) {
	return r.texts(ctx).Excerpt(obj)
}

func (r *postResolver) Content(ctx context.Context, obj *blog.Post) (*string, error) {
	if !obj.Truncated {
		return &obj.Content, nil
	}
	l := loadersOf(ctx)
	posts := l.posts
	if obj.IsDraft {
		posts = l.drafts
	}
	whole, err := posts.load(ctx, obj.ID)
	if whole == nil || err != nil {
		return nil, err
	}
	if whole.Truncated {
		return nil, fmt.Errorf("the text of post %s is lost", obj.ID)
	}
	return &whole.Content, nil
}

func (r *postResolver) ContentHTML(ctx context.Context, obj *blog.Post) (*string, error) {
	source, err := r.Content(ctx, obj)
	if source == nil || err != nil {
		return nil, err
	}
	h, err := r.texts(ctx).HTML(*source)
	return &h, err
}

func (r *postResolver) SeoTitle(ctx context.Context, obj *blog.Post) (*string, error) {
	return plan.TextOrNull(obj.SEOTitle), nil
}

func (r *postResolver) SeoDescription(ctx context.Context, obj *blog.Post) (*string, error) {
	return plan.TextOrNull(obj.SEODescription), nil
}

func (r *postResolver) CanonicalURL(ctx context.Context, obj *blog.Post) (*string, error) {
	return plan.TextOrNull(obj.CanonicalURL), nil
}

func (r *postResolver) Author(ctx context.Context, obj *blog.Post) (*names.User, error) {
	return names.From(ctx).User(blog.User{Byline: obj.Byline}), nil
}

func (r *postResolver) ViewerHasLiked(ctx context.Context, obj *blog.Post) (*bool, error) {
	if viewerID(ctx) == "" {
		return nil, nil
	}
	liked, err := loadersOf(ctx).liked.load(ctx, obj.ID)
	if err != nil {
		return nil, err
	}
	return &liked, nil
}

func (r *postResolver) ViewerHasBookmarked(ctx context.Context, obj *blog.Post) (*bool, error) {
	if viewerID(ctx) == "" {
		return nil, nil
	}
	bookmarked, err := loadersOf(ctx).bookmarked.load(ctx, obj.ID)
	if err != nil {
		return nil, err
	}
	return &bookmarked, nil
}

func (r *postResolver) ViewerCanUpdate(ctx context.Context, obj *blog.Post) (bool, error) {
	return viewerCan(ctx, "updatePost", obj.UserID), nil
}

func (r *postResolver) ViewerCanDelete(ctx context.Context, obj *blog.Post) (bool, error) {
	return viewerCan(ctx, "deletePost", obj.UserID), nil
}

func (r *postResolver) Comments(ctx context.Context, obj *blog.Post, first *int32, after *string, order *store.Order) (*model.CommentConnection, error) {
	page, err := r.commentPage(ctx, obj.ID, plan.PagingOf(first, after, order))
	if err != nil {
		return nil, err
	}
	return commentConnection(page, obj.CommentCount), nil
}

func (r *postResolver) Likes(ctx context.Context, obj *blog.Post, first *int32, after *string) (*model.LikeConnection, error) {
	page, err := r.likePage(ctx, obj.ID, plan.PagingOf(first, after, nil))
	if err != nil {
		return nil, err
	}
	return likeConnection(page, obj.LikeCount), nil
}

func (r *postConnectionResolver) TotalCount(ctx context.Context, obj *model.PostConnection) (*int32, error) {
	if obj.Total == nil {
		return nil, nil
	}
	n, err := obj.Total(ctx)
	if err != nil {
		return nil, err
	}
	return &n, nil
}

func (r *postDeletedPayloadResolver) DeletedPostID(ctx context.Context, obj *live.PostDeletion) (string, error) {
	return postGlobalID(obj.PostID), nil
}

func (r *queryResolver) Node(ctx context.Context, id string) (globalid.Node, error) {
	parsed, err := parseID("id", id)
	if err != nil {
		return nil, err
	}
	return r.node(ctx, parsed)
}

func (r *queryResolver) Nodes(ctx context.Context, ids []string) ([]globalid.Node, error) {
	return r.nodes(ctx, ids)
}

func (r *queryResolver) Viewer(ctx context.Context) (*names.User, error) {
	viewer := viewerID(ctx)
	if viewer == "" {
		return nil, nil
	}
	return shownUser(ctx)(r.user(ctx, viewer))
}

func (r *queryResolver) ViewerIsModerator(ctx context.Context) (bool, error) {
	_, moderator := viewerAndRole(ctx)
	return moderator, nil
}

func (r *queryResolver) User(ctx context.Context, id string) (*names.User, error) {
	userID, err := parseIDOf(globalid.User, "id", id)
	if err != nil {
		return nil, err
	}
	return shownUser(ctx)(r.user(ctx, userID))
}

func (r *queryResolver) UserByUsername(ctx context.Context, username string) (*names.User, error) {
	l := loadersOf(ctx)
	return shownUser(ctx)(l.byUsername.do(username, func() (*blog.User, error) {
		user, err := r.store.UserByUsername(ctx, username)
		if user != nil {
			l.users.prime(user.UserID, user)
		}
		return user, err
	}))
}

func (r *queryResolver) Post(ctx context.Context, id string) (*blog.Post, error) {
	postID, err := parseIDOf(globalid.Post, "id", id)
	if err != nil {
		return nil, err
	}
	return r.post(ctx, postID)
}

func (r *queryResolver) PostBySlug(ctx context.Context, slug string) (*blog.Post, error) {
	id := blog.PostIDOfSlug(slug)
	if id == "" {
		return nil, nil
	}
	return r.post(ctx, id)
}

func (r *queryResolver) RenderMarkdown(ctx context.Context, text string) (*string, error) {
	if viewerID(ctx) == "" {
		return nil, unauthenticated
	}
	text, err := store.Preview(text)
	if err != nil {
		return nil, err
	}
	request := transport.RequestOf(ctx)
	h, err := r.render(ctx, request.Client(), text, func() {})
	if err == nil {
		err = request.Memory.Grow(len(h))
	}
	return (*string)(&h), err
}

func (r *queryResolver) Feed(ctx context.Context, first *int32, after *string) (*model.PostConnection, error) {
	page, err := r.feedPage(ctx, plan.PagingOf(first, after, nil))
	if err != nil {
		return nil, err
	}
	return postConnection(page, r.store.FeedCount), nil
}

func (r *queryResolver) Months(ctx context.Context) ([]*blog.Month, error) {
	return r.store.Months(ctx)
}

func (r *queryResolver) Archive(ctx context.Context, month string, first *int32, after *string) (*model.PostConnection, error) {
	page, err := r.archivePage(ctx, month, plan.PagingOf(first, after, nil))
	if err != nil {
		return nil, err
	}
	return postConnection(page, func(ctx context.Context) (int32, error) { return r.store.MonthCount(ctx, month) }), nil
}

func (r *queryResolver) Tag(ctx context.Context, name string) (*store.Tag, error) {
	return r.store.Tag(ctx, name)
}

func (r *queryResolver) Tags(ctx context.Context, first *int32) ([]*store.Tag, error) {
	return r.store.TopTags(ctx, plan.PagingOf(first, nil, nil).First)
}

func (r *queryResolver) Search(ctx context.Context, query string, first *int32, after *string, order *store.SearchOrder, tag *string, author *string) (*model.SearchConnection, error) {
	q, err := searchOf(query, order, tag, author)
	if err != nil {
		return nil, err
	}
	page, err := r.searchPage(ctx, q, plan.PagingOf(first, after, nil))
	if err != nil {
		return nil, err
	}
	return searchConnection(page), nil
}

func (r *subscriptionResolver) PostPublished(ctx context.Context) (<-chan *blog.Post, error) {
	return transport.Subscribe(ctx, func() (*live.Stream[*blog.Post], error) { return r.store.PublishedPosts(ctx) })
}

func (r *subscriptionResolver) HomePublished(ctx context.Context) (<-chan *blog.Post, error) {
	return transport.Subscribe(ctx, func() (*live.Stream[*blog.Post], error) {
		viewer := viewerID(ctx) // not for each event: viewers share those that their home feeds have in common
		if viewer == "" {
			return nil, unauthenticated
		}
		return r.store.HomePublished(ctx, viewer)
	})
}

func (r *subscriptionResolver) PostChanged(ctx context.Context, id string) (<-chan *blog.Post, error) {
	postID, err := parseIDOf(globalid.Post, "id", id)
	if err != nil {
		return nil, err
	}
	return transport.Subscribe(ctx, func() (*live.Stream[*blog.Post], error) {
		return r.store.PostChanges(ctx, postID)
	})
}

func (r *subscriptionResolver) PostDeleted(ctx context.Context, id string) (<-chan *live.PostDeletion, error) {
	postID, err := parseIDOf(globalid.Post, "id", id)
	if err != nil {
		return nil, err
	}
	return transport.Subscribe(ctx, func() (*live.Stream[*live.PostDeletion], error) {
		return r.store.PostDeletions(ctx, postID)
	})
}

func (r *subscriptionResolver) CommentAdded(ctx context.Context, postID string) (<-chan *blog.Comment, error) {
	postID, err := parseIDOf(globalid.Post, "postId", postID)
	if err != nil {
		return nil, err
	}
	return transport.Subscribe(ctx, func() (*live.Stream[*blog.Comment], error) {
		return r.store.NewComments(ctx, postID)
	})
}

func (r *subscriptionResolver) CommentChanged(ctx context.Context, postID string) (<-chan *live.CommentChange, error) {
	postID, err := parseIDOf(globalid.Post, "postId", postID)
	if err != nil {
		return nil, err
	}
	return transport.Subscribe(ctx, func() (*live.Stream[*live.CommentChange], error) {
		return r.store.CommentChanges(ctx, postID)
	})
}

func (r *tagResolver) ID(ctx context.Context, obj *store.Tag) (string, error) {
	return tagGlobalID(obj), nil
}

func (r *tagResolver) Posts(ctx context.Context, obj *store.Tag, first *int32, after *string) (*model.PostConnection, error) {
	page, err := r.tagPostPage(ctx, obj, plan.PagingOf(first, after, nil))
	if err != nil {
		return nil, err
	}
	return postConnection(page, func(context.Context) (int32, error) { return obj.PostCount, nil }), nil
}

func (r *uploadResolver) ID(ctx context.Context, obj *files.Upload) (string, error) {
	return string(obj.ID), nil
}

func (r *userResolver) ID(ctx context.Context, obj *names.User) (string, error) {
	return userGlobalID(obj.UserID), nil
}

func (r *userResolver) Bio(ctx context.Context, obj *names.User) (*string, error) {
	user := &obj.User
	if obj.CreatedAt == "" {
		var err error
		if user, err = loadersOf(ctx).users.load(ctx, obj.UserID); user == nil || err != nil {
			return nil, err
		}
	}
	return plan.TextOrNull(user.Bio), nil
}

func (r *userResolver) CreatedAt(ctx context.Context, obj *names.User) (*blog.Date, error) {
	if obj.CreatedAt != "" {
		return &obj.CreatedAt, nil
	}
	user, err := loadersOf(ctx).users.load(ctx, obj.UserID)
	if user == nil || err != nil {
		return nil, err
	}
	return &user.CreatedAt, nil
}

func (r *userResolver) PostCount(ctx context.Context, obj *names.User) (*int32, error) {
	n, err := loadersOf(ctx).postCounts.load(ctx, obj.UserID)
	if err != nil {
		return nil, err
	}
	return &n, nil
}

func (r *userResolver) FollowerCount(ctx context.Context, obj *names.User) (*int32, error) {
	user, err := counted(ctx, obj)
	if err != nil {
		return nil, err
	}
	return &user.FollowerCount, nil
}

func (r *userResolver) FollowingCount(ctx context.Context, obj *names.User) (*int32, error) {
	user, err := counted(ctx, obj)
	if err != nil {
		return nil, err
	}
	return &user.FollowingCount, nil
}

func (r *userResolver) ViewerFollows(ctx context.Context, obj *names.User) (*bool, error) {
	return viewerFollows(ctx, obj.UserID)
}

func (r *userResolver) Followers(ctx context.Context, obj *names.User, first *int32, after *string) (*model.UserConnection, error) {
	page, err := r.followerPage(ctx, obj.UserID, plan.PagingOf(first, after, nil))
	if err != nil {
		return nil, err
	}
	return userConnection(ctx, page, func(ctx context.Context) (int32, error) {
		user, err := counted(ctx, obj)
		return user.FollowerCount, err
	}), nil
}

func (r *userResolver) Following(ctx context.Context, obj *names.User, first *int32, after *string) (*model.UserConnection, error) {
	page, err := r.followingPage(ctx, obj.UserID, plan.PagingOf(first, after, nil))
	if err != nil {
		return nil, err
	}
	return userConnection(ctx, page, func(ctx context.Context) (int32, error) {
		user, err := counted(ctx, obj)
		return user.FollowingCount, err
	}), nil
}

func (r *userResolver) Posts(ctx context.Context, obj *names.User, first *int32, after *string) (*model.PostConnection, error) {
	page, err := r.userPostPage(ctx, obj.UserID, plan.PagingOf(first, after, nil))
	if err != nil {
		return nil, err
	}
	return postConnection(page, func(ctx context.Context) (int32, error) {
		return loadersOf(ctx).postCounts.load(ctx, obj.UserID)
	}), nil
}

func (r *userResolver) Drafts(ctx context.Context, obj *names.User, first *int32, after *string) (*model.PostConnection, error) {
	if obj.UserID != viewerID(ctx) {
		return nil, nil
	}
	page, err := r.draftPage(ctx, obj.UserID, plan.PagingOf(first, after, nil))
	if err != nil {
		return nil, err
	}
	return postConnection(page, func(ctx context.Context) (int32, error) {
		return r.store.DraftCount(ctx, obj.UserID)
	}), nil
}

func (r *userResolver) Home(ctx context.Context, obj *names.User, first *int32, after *string) (*model.PostConnection, error) {
	if obj.UserID != viewerID(ctx) {
		return nil, nil
	}
	page, err := r.homePage(ctx, obj.UserID, plan.PagingOf(first, after, nil))
	if err != nil {
		return nil, err
	}
	return postConnection(page, nil), nil
}

func (r *userResolver) LikedPosts(ctx context.Context, obj *names.User, first *int32, after *string) (*model.PostConnection, error) {
	if obj.UserID != viewerID(ctx) {
		return nil, nil
	}
	page, err := r.likedPostPage(ctx, obj.UserID, plan.PagingOf(first, after, nil))
	if err != nil {
		return nil, err
	}
	return postConnection(page, func(ctx context.Context) (int32, error) {
		return r.store.LikedCount(ctx, obj.UserID)
	}), nil
}

func (r *userResolver) Bookmarks(ctx context.Context, obj *names.User, first *int32, after *string) (*model.PostConnection, error) {
	if obj.UserID != viewerID(ctx) {
		return nil, nil
	}
	page, err := r.bookmarkPage(ctx, obj.UserID, plan.PagingOf(first, after, nil))
	if err != nil {
		return nil, err
	}
	return postConnection(page, func(ctx context.Context) (int32, error) {
		return r.store.BookmarkCount(ctx, obj.UserID)
	}), nil
}

func (r *userConnectionResolver) TotalCount(ctx context.Context, obj *model.UserConnection) (*int32, error) {
	n, err := obj.Total(ctx)
	if err != nil {
		return nil, err
	}
	return &n, nil
}

func (r *Resolver) Comment() generated.CommentResolver { return &commentResolver{r} }

func (r *Resolver) CommentChangedPayload() generated.CommentChangedPayloadResolver {
	return &commentChangedPayloadResolver{r}
}

func (r *Resolver) Like() generated.LikeResolver { return &likeResolver{r} }

func (r *Resolver) Mutation() generated.MutationResolver { return &mutationResolver{r} }

func (r *Resolver) Post() generated.PostResolver { return &postResolver{r} }

func (r *Resolver) PostConnection() generated.PostConnectionResolver {
	return &postConnectionResolver{r}
}

func (r *Resolver) PostDeletedPayload() generated.PostDeletedPayloadResolver {
	return &postDeletedPayloadResolver{r}
}

func (r *Resolver) Query() generated.QueryResolver { return &queryResolver{r} }

func (r *Resolver) Subscription() generated.SubscriptionResolver { return &subscriptionResolver{r} }

func (r *Resolver) Tag() generated.TagResolver { return &tagResolver{r} }

func (r *Resolver) Upload() generated.UploadResolver { return &uploadResolver{r} }

func (r *Resolver) User() generated.UserResolver { return &userResolver{r} }

func (r *Resolver) UserConnection() generated.UserConnectionResolver {
	return &userConnectionResolver{r}
}

type (
	commentResolver               struct{ *Resolver }
	commentChangedPayloadResolver struct{ *Resolver }
	likeResolver                  struct{ *Resolver }
	mutationResolver              struct{ *Resolver }
	postResolver                  struct{ *Resolver }
	postConnectionResolver        struct{ *Resolver }
	postDeletedPayloadResolver    struct{ *Resolver }
	queryResolver                 struct{ *Resolver }
	subscriptionResolver          struct{ *Resolver }
	tagResolver                   struct{ *Resolver }
	uploadResolver                struct{ *Resolver }
	userResolver                  struct{ *Resolver }
	userConnectionResolver        struct{ *Resolver }
)
