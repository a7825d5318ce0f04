const { VITE_OIDC_AUTHORITY, VITE_OIDC_CLIENT_ID, VITE_OIDC_SCOPE } = import.meta.env;

/** The OpenID Connect provider, from .env; without one, demo users sign in. */
export const oidc = VITE_OIDC_AUTHORITY
  ? { authority: VITE_OIDC_AUTHORITY, client_id: VITE_OIDC_CLIENT_ID, scope: VITE_OIDC_SCOPE }
  : undefined;
