//! Reading, merging and writing kubeconfigs.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use setpoint_codec::{from_tree, yaml};

use super::*;

const FOREIGN: &str = r#"
apiVersion: v1
kind: Config
preferences: {}
current-context: work
clusters:
- name: work
  cluster:
    server: https://10.0.0.1:6443/
    certificate-authority: pki/ca.crt
    proxy-url: http://proxy
contexts:
- name: work
  context: {cluster: work, user: me, namespace: team}
users:
- name: me
  user:
    tokenFile: token
- name: plugin
  user:
    exec:
      command: login
      apiVersion: client.authentication.k8s.io/v1
      interactiveMode: Never
"#;

fn ours() -> Kubeconfig {
    let cluster = Cluster {
        server: "https://127.0.0.1:6443".to_owned(),
        certificate_authority_data: Some("Q0E=".to_owned()),
        ..Cluster::default()
    };
    let user = User {
        client_certificate_data: Some("Q0VSVA==".to_owned()),
        client_key_data: Some("S0VZ".to_owned()),
        ..User::default()
    };
    Kubeconfig::single_context("setpoint", cluster, user)
}

#[test]
fn inline_data_makes_a_connection() {
    let written = ours().to_yaml().unwrap();
    let connection = Kubeconfig::parse(&written).unwrap().connection(None).unwrap();
    assert_eq!(connection.server, "https://127.0.0.1:6443");
    assert_eq!(connection.authority.as_deref(), Some(b"CA".as_slice()));
    let (chain, key) = (b"CERT".to_vec(), b"KEY".to_vec());
    assert_eq!(connection.identity, Identity::Certificate { chain, key });
}

#[test]
fn a_long_certificate_stays_on_its_line() {
    let data = "QUJD".repeat(100);
    let mut config = ours();
    config.clusters[0].cluster.certificate_authority_data = Some(data.clone());
    assert!(
        config
            .to_yaml()
            .unwrap()
            .contains(&format!("certificate-authority-data: {data}\n"))
    );
}

#[test]
fn files_are_found_beside_the_kubeconfig() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::create_dir(at("pki")).unwrap();
    fs::write(at("pki/ca.crt"), "CA").unwrap();
    fs::write(at("token"), "secret\n").unwrap();
    fs::write(at("config"), FOREIGN).unwrap();
    let connection = Kubeconfig::read(&at("config")).unwrap().connection(None).unwrap();
    assert_eq!(connection.server, "https://10.0.0.1:6443");
    assert_eq!(connection.authority.as_deref(), Some(b"CA".as_slice()));
    assert_eq!(connection.identity, Identity::TokenFile(at("token")));
    assert_eq!(connection.namespace.as_deref(), Some("team"));
}

#[test]
fn a_merge_loses_nothing_of_a_foreign_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config");
    fs::write(&path, FOREIGN).unwrap();
    ours().merge_into(&path).unwrap();
    let merged = Kubeconfig::parse(&fs::read_to_string(&path).unwrap()).unwrap();
    let before = Kubeconfig::parse(FOREIGN).unwrap();
    assert_eq!(merged.cluster("work").unwrap(), before.cluster("work").unwrap());
    assert_eq!(
        merged.user("plugin").unwrap().other,
        before.user("plugin").unwrap().other
    );
    assert!(merged.cluster("work").unwrap().other.contains_key("proxy-url"));
    assert_eq!(merged.current_context, "setpoint");
    assert_eq!(merged.clusters.len(), 2);
    ours().merge_into(&path).unwrap();
    assert_eq!(
        Kubeconfig::parse(&fs::read_to_string(&path).unwrap()).unwrap(),
        merged
    );
}

#[test]
fn only_the_owner_may_read_what_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("deep/config");
    ours().write(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
}

#[test]
fn of_several_files_the_first_wins() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    fs::write(path("a"), FOREIGN).unwrap();
    let mut second = ours();
    second.clusters[0].name = "work".to_owned();
    second.write(&path("b")).unwrap();
    let whole = Kubeconfig::load(&[path("absent"), path("a"), path("b")]).unwrap();
    assert_eq!(whole.current_context, "work");
    assert_eq!(whole.cluster("work").unwrap().server, "https://10.0.0.1:6443/");
    assert!(whole.user("setpoint").is_ok());
}

#[test]
fn lists_may_be_null_and_files_empty() {
    let empty = Kubeconfig::parse("clusters: null\nusers: null\ncontexts: null\n").unwrap();
    assert!(empty.clusters.is_empty());
    assert_eq!(Kubeconfig::parse("").unwrap(), Kubeconfig::default());
}

#[track_caller]
fn check_error(config: &Kubeconfig, context: Option<&str>, expected: &str) {
    assert_eq!(config.connection(context).unwrap_err().to_string(), expected);
}

#[test]
fn invalid_configs_are_errors() {
    let foreign = Kubeconfig::parse(FOREIGN).unwrap();
    check_error(&foreign, Some("play"), r#"the kubeconfig has no context "play""#);
    let mut provided = ours();
    let provider = serde_json::json!({"name": "gcp"});
    provided.users[0].user = User::default();
    provided.users[0]
        .user
        .other
        .insert("auth-provider".to_owned(), provider);
    check_error(
        &provided,
        None,
        "the kubeconfig's user needs an auth provider, which is not supported",
    );
    let mut garbled = ours();
    garbled.clusters[0].cluster.certificate_authority_data = Some("%".to_owned());
    check_error(&garbled, None, "certificate-authority-data is not base64");
}

/// Checks the credentials of a user with these fields.
#[track_caller]
fn check_identity(user: &str, expected: &str) {
    let user: User = from_tree(&yaml::parse(user.as_bytes()).unwrap()).unwrap();
    let mut config = ours();
    config.users[0].user = user;
    let connection = config.connection(None).unwrap();
    let shown = match &connection.identity {
        Identity::Token(token) => format!("token {token}"),
        Identity::Basic { username, password } => format!("basic {username}:{password}"),
        Identity::Exec(exec) => format!("exec {} {}", exec.command, exec.args.as_ref().unwrap().join(" ")),
        other => format!("{other:?}"),
    };
    let behalf = connection.impersonate.map_or(String::new(), |other| {
        format!(" as {} of {:?} {:?}", other.user, other.groups, other.extra)
    });
    assert_eq!(format!("{shown}{behalf}"), expected);
}

/// CL8
#[test]
fn cl8_all_kinds_of_credentials_are_read() {
    check_identity("{}", "Anonymous");
    check_identity("token: t", "token t");
    check_identity("{username: u, password: p}", "basic u:p");
    check_identity(
        "exec: {apiVersion: client.authentication.k8s.io/v1, command: get-token, args: [a, b], interactiveMode: Never}",
        "exec get-token a b",
    );
    check_identity("auth-provider: {name: oidc, config: {id-token: i}}", "token i");
    check_identity(
        "{token: t, as: other, as-groups: [g], as-user-extra: {k: [v]}}",
        r#"token t as other of ["g"] {"k": ["v"]}"#,
    );
}

#[test]
fn a_plugin_beside_the_kubeconfig_is_found_there() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config");
    let mut config = ours();
    let exec = serde_json::json!({"apiVersion": "v", "command": "./plugin"});
    config.users[0].user = User::default();
    config.users[0].user.other.insert("exec".to_owned(), exec);
    config.write(&path).unwrap();
    let connection = Kubeconfig::read(&path).unwrap().connection(None).unwrap();
    let Identity::Exec(exec) = connection.identity else {
        panic!("a plugin is a plugin");
    };
    assert_eq!(exec.command, directory.path().join("./plugin").to_string_lossy());
}

/// CL8
#[test]
fn cl8_a_pod_finds_its_own_cluster() {
    let account = tempfile::tempdir().unwrap();
    for (name, text) in [("token", "t"), ("ca.crt", "CA"), ("namespace", "team\n")] {
        fs::write(account.path().join(name), text).unwrap();
    }
    let connection = Connection::from_service_account(Some("fd00::1"), Some("443"), account.path()).unwrap();
    assert_eq!(connection.server, "https://[fd00::1]:443");
    assert_eq!(
        connection.identity,
        Identity::TokenFile(account.path().join("token"))
    );
    assert_eq!(connection.namespace.as_deref(), Some("team"));
    assert!(matches!(
        Connection::from_service_account(None, None, account.path()),
        Err(Error::NotInCluster)
    ));
}
