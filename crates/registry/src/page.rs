//! Pages of a list: the token that says where the next one starts.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use setpoint_api::{ResourceVersion, Status};

const FORM: &str = "meta.k8s.io/v1";

/// Where a list goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Page {
    /// The revision of the first page; none to go on with what is there now.
    pub(crate) version: Option<ResourceVersion>,
    /// The key to start at, without the resource's prefix. Keys that start with a zero byte sort before it.
    pub(crate) start: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Token {
    v: String,
    #[serde(default)]
    rv: i64,
    #[serde(default)]
    start: String,
}

impl Page {
    /// The page that starts behind this key.
    pub(crate) fn after(version: ResourceVersion, key: &str) -> Self {
        Self {
            version: Some(version),
            start: format!("{key}\0"),
        }
    }

    pub(crate) fn to_token(&self) -> String {
        let version = self.version.map_or(-1, |version| version.0.cast_signed());
        let token = Token {
            v: FORM.to_owned(),
            rv: version,
            start: self.start.clone(),
        };
        let json = serde_json::to_vec(&token).expect("a token has only strings and numbers");
        URL_SAFE_NO_PAD.encode(json)
    }

    pub(crate) fn from_token(text: &str) -> Result<Self, Status> {
        let json = URL_SAFE_NO_PAD
            .decode(text.trim_end_matches('='))
            .map_err(|_| invalid("illegal base64 data"))?;
        let token: Token = serde_json::from_slice(&json).map_err(invalid)?;
        if token.v != FORM {
            return Err(invalid(format!(
                "server does not recognize this encoded version {}",
                token.v
            )));
        }
        if token.start.is_empty() {
            return Err(invalid("encoded start key empty (version meta.k8s.io/v1)"));
        }
        let version = match token.rv {
            0 => {
                return Err(invalid(
                    "incorrect encoded start resourceVersion 0 (version meta.k8s.io/v1)",
                ));
            }
            -1 => None,
            version => Some(ResourceVersion(version.cast_unsigned())),
        };
        Ok(Self {
            version,
            start: token.start,
        })
    }
}

fn invalid(why: impl std::fmt::Display) -> Status {
    Status::bad_request(format!(
        "invalid continue token: continue key is not valid: {why}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_reads_as_it_was_written() {
        let page = Page::after(ResourceVersion(42), "default/web");
        assert_eq!(Page::from_token(&page.to_token()).unwrap(), page);
        let json = URL_SAFE_NO_PAD.decode(page.to_token()).unwrap();
        assert_eq!(
            String::from_utf8(json).unwrap(),
            r#"{"v":"meta.k8s.io/v1","rv":42,"start":"default/web\u0000"}"#
        );
    }

    #[test]
    fn a_page_of_what_is_there_now_has_no_version() {
        let page = Page {
            version: None,
            start: "a\0".to_owned(),
        };
        assert_eq!(Page::from_token(&page.to_token()).unwrap(), page);
    }

    #[test]
    fn what_is_no_token_is_refused() {
        for text in ["garbage", "eyJ2IjoieCJ9", "?"] {
            let status = Page::from_token(text).unwrap_err();
            assert_eq!(status.code, 400);
            assert!(status.message.starts_with("invalid continue token: "), "{status}");
        }
    }
}
