import { useEffect, useEffectEvent } from "react";

/**
 * Calls read a second after each connection of the socket, also of one that is open already: events from before a
 * subscription has started are not delivered.
 */
export function useReadAgain(read: () => void) {
  const onRead = useEffectEvent(read);
  useEffect(() => {
    let stop: (() => void) | undefined;
    let ended = false;
    let timer = setTimeout(onRead, 1000);
    void import("./socket").then(({ onConnected }) => {
      if (ended) return;
      stop = onConnected(() => {
        clearTimeout(timer);
        timer = setTimeout(onRead, 1000);
      });
    });
    return () => {
      ended = true;
      clearTimeout(timer);
      stop?.();
    };
  }, []);
}
