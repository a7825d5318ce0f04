import { useEffect, useState } from "react";
import { Link } from "wouter";
import { PageHeading } from "../app/PageHeading";
import { ErrorText } from "../ui/ErrorText";

/** Where the identity provider redirects to. */
export default function CallbackPage() {
  const [failed, setFailed] = useState(false);
  useEffect(() => {
    import("../session/oidc").then(({ completeSignIn }) => completeSignIn()).catch(() => { setFailed(true); });
  }, []);
  return (
    <section className="page">
      <PageHeading title="Signing in" />
      <ErrorText>
        {failed && <>Signing in has not succeeded. <Link href="/signin">Try again</Link></>}
      </ErrorText>
    </section>
  );
}
