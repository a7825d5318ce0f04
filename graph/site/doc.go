// Package site serves a blog on the web: the files of a front end that was built, and for the front page, posts, tags
// and authors a page that readers, crawlers and link previews understand without JavaScript.
//
// A page is the front end's own HTML, with tags in its head, the text in its root element, and the response to the
// query that the front end would send first (page.go, shell.go). Beside the pages are their feeds, the Markdown of
// posts, and what crawlers ask for (feed.go, alternates.go, sitemap.go, robots.go). The front end's build lists its
// routes in site.json (manifest.go). What is rendered is cached until a response that it is made of changes
// (rendered.go).
//
// The package reads the blog by GraphQL, as an anonymous client in the gateway's process (package transport): the
// caches, budgets, limits and metrics of queries are those of pages. From the store it reads only the tombstones of
// deleted posts. A page is the same for everybody: it never depends on a token, a cookie or a session.
//
// It starts nothing; its handler is safe for concurrent use.
package site
