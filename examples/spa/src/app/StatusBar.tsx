import { retryNow, useProblem, type Problem } from "../network/status";
import "./StatusBar.css";

const unreachable = import.meta.env.DEV
  ? "The gateway does not respond. Start it with “go run .” in the root of the repository. Trying again…"
  : "The server does not respond. Trying again; what you write is kept.";

const texts: Record<Problem, string> = {
  offline: "You are offline. What you write is kept, and sent when you are online again.",
  unreachable,
  throttled: "Too many requests at the moment. Waiting, then trying again.",
  slow: "This takes longer than usual. Still waiting for a response…",
};

/** Says why requests wait. */
export function StatusBar() {
  const problem = useProblem();
  return (
    <div role="status" className="status-bar" data-problem={problem}>
      {problem && <p>{texts[problem]}</p>}
      {(problem === "offline" || problem === "unreachable") && (
        <button type="button" className="button" onClick={retryNow}>
          Try now
        </button>
      )}
    </div>
  );
}
