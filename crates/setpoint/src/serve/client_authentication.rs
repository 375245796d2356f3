//! Client certificates besides those of the cluster's CA: of users (`--client-ca-file`), and of authenticating proxies
//! (`--requestheader-*`).

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use setpoint_apiserver::RequestHeaders;
use setpoint_apiserver::tls::{Identity, certificates_from_pem};
use setpoint_kinds::bootstrap::RequestHeaderInfo;

use crate::args::{AuthenticationFlags, RequestHeaderFlags};

/// The CAs of the flags, as PEM, and the headers of authenticating proxies.
#[derive(Debug, Default)]
pub(super) struct ClientAuthentication {
    client_ca: Option<String>,
    proxy_ca: Option<String>,
    flags: RequestHeaderFlags,
}

impl ClientAuthentication {
    /// Reads the CAs that the flags name.
    pub(super) fn open(flags: &AuthenticationFlags) -> Result<Self> {
        let read = |path: &Path| {
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
        };
        let headers = &flags.request_header;
        check(headers)?;
        let client_ca = flags.client_ca_file.as_deref().map(read).transpose()?;
        let proxy_ca = headers.requestheader_client_ca_file.as_deref();
        let proxy_ca = proxy_ca.map(read).transpose()?;
        ensure!(
            client_ca.is_none() || client_ca != proxy_ca || !headers.requestheader_allowed_names.is_empty(),
            "--requestheader-client-ca-file and --client-ca-file contain overlapping certificates; \
             --requestheader-allowed-names must be specified to ensure regular client certificates cannot set \
             authenticating proxy headers for arbitrary users"
        );
        Ok(Self {
            client_ca,
            proxy_ca,
            flags: headers.clone(),
        })
    }

    /// Adds the CAs to those that the server accepts.
    pub(super) fn add_to_identity(&self, mut identity: Identity) -> Result<Identity> {
        if let Some(pem) = &self.client_ca {
            let added = certificates_from_pem(pem.as_bytes()).context("cannot use the client CA file")?;
            identity.client_ca.extend(added);
        }
        if let Some(pem) = &self.proxy_ca {
            let added = certificates_from_pem(pem.as_bytes());
            let added = added.context("cannot use the CA file of request headers")?;
            identity.proxy_ca.extend(added);
        }
        Ok(identity)
    }

    /// The CAs of users' client certificates, of which the cluster's own come first.
    pub(super) fn client_bundle(&self, own: &str) -> String {
        bundle(own, self.client_ca.as_deref())
    }

    /// The CAs of authenticating proxies, of which the cluster's own come first.
    pub(super) fn proxy_bundle(&self, own: &str) -> String {
        bundle(own, self.proxy_ca.as_deref())
    }

    /// How aggregated API servers recognize this server and the authenticating proxies of the flags.
    pub(super) fn request_header_info(&self) -> RequestHeaderInfo {
        let (mut info, flags) = (RequestHeaderInfo::default(), &self.flags);
        if self.proxy_ca.is_none() {
            return info;
        }
        match flags.requestheader_allowed_names.is_empty() {
            // Any name is accepted.
            true => info.allowed_names.clear(),
            false => add(&mut info.allowed_names, &flags.requestheader_allowed_names),
        }
        add(&mut info.username_headers, &flags.requestheader_username_headers);
        add(&mut info.uid_headers, &flags.requestheader_uid_headers);
        add(&mut info.group_headers, &flags.requestheader_group_headers);
        let prefixes = &flags.requestheader_extra_headers_prefix;
        add(&mut info.extra_headers_prefix, prefixes);
        info
    }

    /// The headers in which authenticating proxies name the user, if there are any.
    pub(super) fn request_headers(&self) -> Result<Option<RequestHeaders>> {
        if self.proxy_ca.is_none() {
            return Ok(None);
        }
        let flags = &self.flags;
        let lower = |prefix: &String| prefix.to_lowercase();
        let headers = RequestHeaders::new(
            &flags.requestheader_username_headers,
            &flags.requestheader_uid_headers,
            &flags.requestheader_group_headers,
        );
        Ok(Some(RequestHeaders {
            allowed_names: flags.requestheader_allowed_names.clone(),
            extra_header_prefixes: flags
                .requestheader_extra_headers_prefix
                .iter()
                .map(lower)
                .collect(),
            ..headers.map_err(|name| anyhow::anyhow!("invalid header name {name:?}"))?
        }))
    }
}

fn check(flags: &RequestHeaderFlags) -> Result<()> {
    for (flag, list) in [
        (
            "requestheader-username-headers",
            &flags.requestheader_username_headers,
        ),
        ("requestheader-uid-headers", &flags.requestheader_uid_headers),
        ("requestheader-group-headers", &flags.requestheader_group_headers),
        (
            "requestheader-extra-headers-prefix",
            &flags.requestheader_extra_headers_prefix,
        ),
        ("requestheader-allowed-names", &flags.requestheader_allowed_names),
    ] {
        ensure!(
            list.iter().all(|value| !value.trim().is_empty()),
            "empty value in {flag:?}"
        );
    }
    Ok(())
}

fn bundle(own: &str, added: Option<&str>) -> String {
    match added {
        None => own.to_owned(),
        Some(added) => format!("{}\n{added}", own.trim_end()),
    }
}

/// Appends the values that are not in the list.
fn add(list: &mut Vec<String>, values: &[String]) {
    for value in values {
        if !list.iter().any(|own| own.eq_ignore_ascii_case(value)) {
            list.push(value.clone());
        }
    }
}
