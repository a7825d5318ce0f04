// Runs the audits of GraphQL over HTTP against a server, and fails unless every
// one of them passes.
//
//   node audit.mjs http://localhost:8080/graphql
import { serverAudits } from "graphql-http";

const expected = 61; // the audits of graphql-http 1.23.1: fewer mean that some were not run
const url = process.argv[2] ?? "http://localhost:8080/graphql";

let passed = 0;
const audits = serverAudits({ url, fetchFn: fetch });
for (const audit of audits) {
  const result = await audit.fn();
  if (result.status === "ok") {
    passed++;
  } else {
    console.error(`${result.status}: ${result.id} ${result.name}: ${result.reason ?? ""}`);
  }
}
console.log(`${passed} of ${audits.length} audits pass`);
process.exitCode = passed === audits.length && audits.length === expected ? 0 : 1;
