import { PageHeading } from "../app/PageHeading";
import { RequireUser } from "../session/RequireUser";
import { signOut } from "../session/session";
import { DeleteAccount } from "./DeleteAccount";
import { UsernameForm } from "./UsernameForm";
import "./SettingsPage.css";

export default function SettingsPage() {
  return (
    <RequireUser>
      {(viewer) => (
        <div className="page settings">
          <PageHeading title="Settings" />
          <UsernameForm username={viewer.username} />
          <DeleteAccount user={viewer} onDeleted={signOut} />
        </div>
      )}
    </RequireUser>
  );
}
