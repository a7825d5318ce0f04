package article

import "strings"

// figure is a latency and a request charge from the article.
type figure struct {
	ms, ru float64
}

// request is one of the article's ten requests.
type request struct {
	id, what string
	figures  [3]figure // by version, as published
}

// readOnly reports whether the request writes nothing.
func (r request) readOnly() bool { return strings.HasPrefix(r.id, "Q") }

// requests are the article's, in its order. The figures are those of "How to model and
// partition data on Azure Cosmos DB using a real-world example"
// (https://learn.microsoft.com/azure/cosmos-db/nosql/model-partition-example).
var requests = []request{
	{"C1", "create a user", [3]figure{{7, 5.71}, {7, 5.71}, {7, 5.71}}},
	{"Q1", "a user", [3]figure{{2, 1}, {2, 1}, {2, 1}}},
	{"C2", "create a post", [3]figure{{9, 8.76}, {9, 8.76}, {9, 8.76}}},
	{"Q2", "a post", [3]figure{{9, 19.54}, {2, 1}, {2, 1}}},
	{"Q3", "a user's posts", [3]figure{{130, 619.41}, {28, 201.54}, {4, 6.46}}},
	{"C3", "create a comment", [3]figure{{7, 8.57}, {7, 15.27}, {7, 15.27}}},
	{"Q4", "a post's comments", [3]figure{{23, 27.72}, {4, 7.72}, {4, 7.72}}},
	{"C4", "like a post", [3]figure{{6, 7.05}, {7, 14.67}, {7, 14.67}}},
	{"Q5", "a post's likes", [3]figure{{59, 58.92}, {4, 8.92}, {4, 8.92}}},
	{"Q6", "the newest 100 posts", [3]figure{{306, 2063.54}, {83, 532.33}, {9, 16.97}}},
}
