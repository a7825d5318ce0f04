import { Link } from "wouter";
import { PageHeading } from "./PageHeading";

export function NotFoundPage() {
  return (
    <section className="page">
      <PageHeading title="Not found" />
      <p>There is nothing at this address. It may have been deleted.</p>
      <p>
        <Link href="/">Read the newest posts</Link>
      </p>
    </section>
  );
}
