import { useEffect, useState } from "react";
import { onCost, type Cost } from "../network/cost";
import "./CostBadge.css";

/** Shows in development what the last request cost, in request units (RU). */
export default function CostBadge() {
  const [cost, setCost] = useState<Cost>();
  const [total, setTotal] = useState(0);
  useEffect(
    () =>
      onCost((next) => {
        setCost(next);
        setTotal((total) => total + next.actualRU);
      }),
    [],
  );
  if (!cost) return null;
  return (
    <aside className="cost-badge" aria-label="Request units" title={`predicted: ${cost.predictedRU.toFixed(2)} RU`}>
      {cost.operation} <b>{cost.actualRU.toFixed(2)} RU</b> · {total.toFixed(1)} in all
    </aside>
  );
}
