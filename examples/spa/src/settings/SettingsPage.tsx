import { PageHeading } from "../app/PageHeading";
import { RequireUser } from "../session/RequireUser";
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
          <DeleteAccount username={viewer.username} />
        </div>
      )}
    </RequireUser>
  );
}
