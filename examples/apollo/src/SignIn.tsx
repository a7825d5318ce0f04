import { useMutation, useQuery } from "@apollo/client/react";
import { useState } from "react";
import { CREATE_USER, VIEWER } from "./documents.ts";

export function SignIn() {
  const { data, error, refetch } = useQuery(VIEWER);
  const [username, setUsername] = useState("");
  const [createUser, { error: refused }] = useMutation(CREATE_USER, {
    errorPolicy: "all",
    update: (cache, { data }) =>
      data?.createUser && cache.writeQuery({ query: VIEWER, data: { viewer: data.createUser.user } }),
  });
  if (error) return <p>{error.message} <button onClick={() => refetch()}>Try again</button></p>;
  if (!data) return null;
  if (data.viewer) return <p>Signed in as {data.viewer.username}</p>;
  return (
    <form onSubmit={(event) => { event.preventDefault(); void createUser({ variables: { username } }); }}>
      <input name="username" aria-label="Username" required value={username} onChange={({ target }) => setUsername(target.value)} />
      <button>Join</button> {refused && `Username: ${refused.message}`}
    </form>
  );
}
