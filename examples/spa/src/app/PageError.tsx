import { codeOf, GatewayError } from "../network/errors";
import { ErrorNote } from "../ui/ErrorNote";
import { NotFoundPage } from "./NotFoundPage";
import { PageHeading } from "./PageHeading";

/** Says why a page could not be loaded. */
export function PageError({ error }: { error: unknown }) {
  if (codeOf(error) === "BAD_USER_INPUT") return <NotFoundPage />; // the address has an invalid id
  return (
    <section className="page">
      <PageHeading title="This page could not be loaded" />
      <ErrorNote error={error}>
        <button type="button" className="button" onClick={() => { location.reload(); }}>
          {error instanceof GatewayError ? "Try again" : "Reload"}
        </button>
      </ErrorNote>
    </section>
  );
}
