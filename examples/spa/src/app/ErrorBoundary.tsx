import { Component, type ReactNode } from "react";

interface Props {
  children: ReactNode;
  fallback: (error: unknown) => ReactNode;
}

/** Shows something else instead of children that could not be loaded or rendered. */
export class ErrorBoundary extends Component<Props, { failed: boolean; error?: unknown }> {
  override state: { failed: boolean; error?: unknown } = { failed: false };

  static getDerivedStateFromError(error: unknown) {
    return { failed: true, error };
  }

  override render() {
    return this.state.failed ? this.props.fallback(this.state.error) : this.props.children;
  }
}
