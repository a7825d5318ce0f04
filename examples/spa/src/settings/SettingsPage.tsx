import { PageHeading } from "../app/PageHeading";
import { RequireUser } from "../session/RequireUser";
import { signOut } from "../session/session";
import { DeleteAccount } from "./DeleteAccount";
import { ProfileForm } from "./ProfileForm";
import "./SettingsPage.css";

export default function SettingsPage() {
  return (
    <RequireUser>
      {(viewer) => (
        <div className="page settings">
          <PageHeading title="Settings" />
          <ProfileForm />
          <DeleteAccount user={viewer} onDeleted={signOut} />
        </div>
      )}
    </RequireUser>
  );
}
