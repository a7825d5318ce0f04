import { useMutation, useQuery } from "@apollo/client/react";
import { CREATE_USER, VIEWER } from "./documents.ts";

export function SignIn() {
  const { data } = useQuery(VIEWER);
  const [createUser, { error }] = useMutation(CREATE_USER, {
    errorPolicy: "all",
    update: (cache, { data }) =>
      data?.createUser && cache.writeQuery({ query: VIEWER, data: { viewer: data.createUser.user } }),
  });
  if (!data) return null;
  if (data.viewer) return <p>Signed in as {data.viewer.username}</p>;
  return (
    <form action={(form) => void createUser({ variables: { username: String(form.get("username")) } })}>
      <input name="username" aria-label="Username" required /> <button>Join</button> {error?.message}
    </form>
  );
}
