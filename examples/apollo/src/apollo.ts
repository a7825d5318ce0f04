import { ApolloClient, InMemoryCache } from "@apollo/client";
import { cacheConfig, createLink } from "byline-client/apollo";
import { byline } from "./byline.ts";

export const client = new ApolloClient({ link: createLink(byline), cache: new InMemoryCache(cacheConfig) });
