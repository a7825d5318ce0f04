-- Ids rise with time, so that the newest come first by an index that is there anyway.
-- There are no foreign keys: each statement that writes has read what it refers to.
CREATE TABLE users (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  subject text NOT NULL UNIQUE,
  username text NOT NULL,
  created_at timestamptz(3) NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX ON users (lower(username));

-- Counts change in place: pages have room for another version of a row.
CREATE TABLE posts (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  author_id bigint NOT NULL,
  title text NOT NULL,
  excerpt text NOT NULL,
  content text NOT NULL,
  comment_count int NOT NULL DEFAULT 0,
  like_count int NOT NULL DEFAULT 0,
  created_at timestamptz(3) NOT NULL DEFAULT now()
) WITH (fillfactor = 70);
CREATE INDEX ON posts (author_id, id);

CREATE TABLE comments (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  post_id bigint NOT NULL,
  author_id bigint NOT NULL,
  content text NOT NULL,
  created_at timestamptz(3) NOT NULL DEFAULT now()
);
CREATE INDEX ON comments (post_id, id);

CREATE TABLE likes (
  id bigint GENERATED ALWAYS AS IDENTITY,
  post_id bigint NOT NULL,
  user_id bigint NOT NULL,
  created_at timestamptz(3) NOT NULL DEFAULT now(),
  PRIMARY KEY (post_id, user_id)
);
CREATE INDEX ON likes (post_id, id);
