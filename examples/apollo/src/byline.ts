import { createByline } from "byline-client";

export const byline = createByline({ url: "/graphql", token: () => sessionStorage.getItem("token") });
