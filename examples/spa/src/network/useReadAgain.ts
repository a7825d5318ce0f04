import { useEffect, useEffectEvent } from "react";
import { byline } from "./byline";

/** Reads what subscriptions change again when they have started, since earlier events are not delivered. */
export function useReadAgain(read: () => void) {
  const onRead = useEffectEvent(read);
  useEffect(() => byline.readAgain(onRead), []);
}
