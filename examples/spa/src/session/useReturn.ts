import { useLocationProperty } from "wouter/use-browser-location";
import { originOf } from "../signin/destination";

/** The parameter with which the pages for signing in and choosing a username return to this page, with its query. */
export const useReturn = () => useLocationProperty(() => `?to=${encodeURIComponent(originOf(location))}`);
