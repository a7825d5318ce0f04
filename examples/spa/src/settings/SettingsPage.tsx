import { graphql, usePreloadedQuery, type PreloadedQuery } from "react-relay/hooks";
import type { SettingsPageQuery } from "../__generated__/SettingsPageQuery.graphql";
import { PageHeading } from "../app/PageHeading";
import { signOut } from "../session/session";
import { DeleteAccount } from "./DeleteAccount";
import { ProfileForm } from "./ProfileForm";
import "./SettingsPage.css";

export default function SettingsPage({ query }: { query: PreloadedQuery<SettingsPageQuery> }) {
  const { viewer } = usePreloadedQuery<SettingsPageQuery>(
    graphql`
      query SettingsPageQuery @preloadable {
        viewer {
          id
          username
          ...ProfileForm_user
        }
      }
    `,
    query,
  );
  if (!viewer) return null;
  return (
    <div className="page settings">
      <PageHeading title="Settings" />
      <ProfileForm user={viewer} />
      <DeleteAccount user={viewer} onDeleted={signOut} />
    </div>
  );
}
