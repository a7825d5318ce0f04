import { useSearch } from "wouter/use-browser-location";
import { PageHeading } from "../app/PageHeading";
import { oidc } from "../session/config";
import { blocked } from "../session/storage";
import { DemoSignIn } from "./DemoSignIn";
import { destination } from "./destination";
import { ProviderSignIn } from "./ProviderSignIn";
import "./SignInPage.css";

export default function SignInPage() {
  const page = destination(useSearch());
  return (
    <section className="page sign-in">
      <PageHeading title="Sign in" />
      {blocked && <p>Your browser blocks this site’s data, without which nobody can stay signed in.</p>}
      {!blocked && (oidc ? <ProviderSignIn page={page} /> : <DemoSignIn page={page} />)}
    </section>
  );
}
