/** The request units (RU) of a request, as the badge shows them in development. */
export interface Cost {
  operation: string;
  predictedRU: number;
  actualRU: number;
}

type Listener = (cost: Cost) => void;
const listeners = new Set<Listener>();

export function recordCost(operation: string, cost?: Omit<Cost, "operation">) {
  if (cost) for (const listener of listeners) listener({ operation, ...cost });
}

export function onCost(listener: Listener) {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}
