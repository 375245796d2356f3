//! The store on etcd, as `--etcd-servers` configures it.

use std::sync::Arc;

use anyhow::{Context, Result};
use setpoint_etcd::{Credentials, EtcdConfig, TlsFiles};
use setpoint_registry::EtcdLayout;
use setpoint_store::{Config, Store};
use setpoint_strategy::Kinds;

use crate::args::EtcdFlags;

/// Opens the store. Resolves once its keys are listed.
pub(super) async fn open(flags: &EtcdFlags, config: Config, kinds: &Kinds) -> Result<Store> {
    let etcd = etcd_config(flags)?;
    let config = Config {
        codec: Arc::new(layout(flags, kinds)),
        ..config
    };
    let servers = flags.etcd_servers.join(",");
    let opened = setpoint_etcd::open(etcd, config).await;
    opened.with_context(|| format!("cannot use the etcd at {servers}"))
}

/// The keys and values of these flags.
pub(super) fn layout(flags: &EtcdFlags, kinds: &Kinds) -> EtcdLayout {
    EtcdLayout::new(&flags.etcd_prefix, kinds)
}

pub(super) fn etcd_config(flags: &EtcdFlags) -> Result<EtcdConfig> {
    let tls = TlsFiles {
        authority: flags.etcd_cafile.clone(),
        certificate: flags.etcd_certfile.clone(),
        key: flags.etcd_keyfile.clone(),
    };
    let mut config = EtcdConfig::new(&flags.etcd_servers, &tls)?;
    config.compaction_interval = flags.etcd_compaction_interval;
    config.credentials = credentials(flags)?;
    Ok(config)
}

fn credentials(flags: &EtcdFlags) -> Result<Option<Credentials>> {
    let (Some(user), Some(path)) = (&flags.etcd_user, &flags.etcd_password_file) else {
        return Ok(None);
    };
    let text = std::fs::read_to_string(path);
    let text = text.with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Some(Credentials {
        user: user.clone(),
        password: text.trim_end_matches(['\n', '\r']).to_owned(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(contents: &str, expected: &str) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("password");
        std::fs::write(&path, contents).unwrap();
        let flags = EtcdFlags {
            etcd_servers: vec!["http://127.0.0.1:2379".to_owned()],
            etcd_user: Some("root".to_owned()),
            etcd_password_file: Some(path),
            ..EtcdFlags::default()
        };
        let credentials = etcd_config(&flags).unwrap().credentials.unwrap();
        assert_eq!(
            (credentials.user, credentials.password.as_str()),
            ("root".to_owned(), expected)
        );
    }

    #[test]
    fn the_password_is_the_text_of_its_file_without_the_line_break() {
        check("secret\n", "secret");
        check("with space ", "with space ");
    }

    #[test]
    fn without_a_user_there_are_no_credentials() {
        assert_eq!(credentials(&EtcdFlags::default()).unwrap(), None);
    }
}
