//! [`ConnectOptions`]: the options of a connect, from its query, and as admission sees and changes them.

use setpoint_schema::{Tree, fields};
use setpoint_strategy::ConnectKind;

use crate::request::query::Query;

/// The options of an exec, an attach, a portforward or a proxy (upstream: `PodExecOptions` and its siblings).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ConnectOptions {
    pub(super) stdin: bool,
    pub(super) stdout: bool,
    pub(super) stderr: bool,
    pub(super) tty: bool,
    pub(super) container: String,
    pub(super) command: Vec<String>,
    pub(super) ports: Vec<String>,
    path: String,
}

impl ConnectOptions {
    /// The options in a query; `path` is the path after `/proxy`.
    pub(super) fn parse(query: &Query<'_>, path: &str) -> Self {
        let flag = |name: &str| query.flag(name).unwrap_or_default();
        let texts = |name: &str| query.all(name).map(str::to_owned).collect();
        Self {
            stdin: flag("stdin"),
            stdout: flag("stdout"),
            stderr: flag("stderr"),
            tty: flag("tty"),
            container: query.text("container").unwrap_or_default().to_owned(),
            command: texts("command"),
            ports: texts("ports"),
            path: path.to_owned(),
        }
    }

    /// The options as an object of this kind.
    pub(super) fn to_tree(&self, connect: ConnectKind, kind: &str) -> Tree {
        let mut tree = Tree::default();
        tree.set(&[fields::KIND], kind);
        tree.set(&[fields::API_VERSION], "v1");
        match connect {
            ConnectKind::Exec | ConnectKind::Attach => self.add_streams(connect, &mut tree),
            ConnectKind::PortForward => {
                let ports = self.ports.iter().flat_map(|ports| ports.split(','));
                let ports: Vec<Tree> = ports
                    .filter_map(|port| port.parse::<i64>().ok())
                    .map(Tree::from)
                    .collect();
                if !ports.is_empty() {
                    tree.set(&["ports"], ports);
                }
            }
            ConnectKind::Proxy if !self.path.is_empty() => tree.set(&["path"], self.path.as_str()),
            ConnectKind::Proxy | ConnectKind::Log => {}
        }
        tree
    }

    fn add_streams(&self, connect: ConnectKind, tree: &mut Tree) {
        let streams = [
            ("stdin", self.stdin),
            ("stdout", self.stdout),
            ("stderr", self.stderr),
            ("tty", self.tty),
        ];
        for (name, _) in streams.into_iter().filter(|(_, is_set)| *is_set) {
            tree.set(&[name], true);
        }
        if !self.container.is_empty() {
            tree.set(&["container"], self.container.as_str());
        }
        if connect == ConnectKind::Exec {
            let command: Vec<Tree> = self
                .command
                .iter()
                .map(|text| Tree::from(text.as_str()))
                .collect();
            tree.set(&["command"], command);
        }
    }

    /// The options that admission has returned.
    pub(super) fn from_tree(tree: &Tree) -> Self {
        let flag = |name: &str| tree.get(name).and_then(Tree::as_bool).unwrap_or_default();
        let text = |name: &str| tree.str_at(&[name]).unwrap_or_default().to_owned();
        let command = tree.items("command").iter();
        let ports = tree.items("ports").iter();
        Self {
            stdin: flag("stdin"),
            stdout: flag("stdout"),
            stderr: flag("stderr"),
            tty: flag("tty"),
            container: text("container"),
            command: command.filter_map(Tree::as_str).map(str::to_owned).collect(),
            ports: ports
                .filter_map(Tree::as_i64)
                .map(|port| port.to_string())
                .collect(),
            path: text("path"),
        }
    }

    /// The requested streams as the kubelet's query parameters.
    pub(super) fn streams(&self) -> Vec<(&str, &str)> {
        let streams = [
            (self.stdin, "input"),
            (self.stdout, "output"),
            (self.stderr, "error"),
            (self.tty, "tty"),
        ];
        let requested = streams.into_iter().filter(|(is_requested, _)| *is_requested);
        requested.map(|(_, name)| (name, "1")).collect()
    }
}
