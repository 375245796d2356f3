//! The one who signs tokens, and knows its own signature again.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use ring::digest::{self, digest};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::claims::Claims;
use super::legacy::{self, LegacyClaims};
use crate::keys::{self, PublicKey, SigningKey};

/// What the server is called in tokens, if nobody says otherwise.
pub const DEFAULT_URL: &str = "https://kubernetes.default.svc";
/// How many verified tokens are remembered.
const MOST_REMEMBERED: usize = 4096;

/// Makes tokens and verifies them.
#[derive(Debug)]
pub struct Issuer {
    /// The name of the server in its tokens.
    pub url: String,
    /// Whom tokens are for that are meant for this server.
    pub audiences: Vec<String>,
    /// Whether tokens mounted into pods live for a year, with a mark from when on their use is late. Programs that
    /// never read their token again then go on working.
    pub extend: bool,
    /// The longest time a token may be asked for.
    pub most_seconds: Option<i64>,
    signing: SigningKey,
    verifying: Vec<PublicKey>,
    verified: Verified,
}

/// Why a token is no good; the sentence is told to whoever reviews it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);

/// Tokens whose signature has been found good, by their digest. A signature stays good, so an entry never grows stale;
/// whether the token still holds is asked each time. When it is full it starts over.
#[derive(Debug, Default)]
struct Verified(Mutex<HashMap<[u8; digest::SHA256_OUTPUT_LEN], Arc<Claims>>>);

#[derive(Debug, Serialize, Deserialize)]
struct Header {
    alg: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    kid: String,
}

/// What is read before the signature is checked: only whether to go on.
#[derive(Debug, Deserialize)]
struct Named {
    iss: String,
}

// === impl Issuer ===

impl Issuer {
    /// An issuer that signs with one key and verifies with it and the others.
    pub fn new(url: &str, signing: SigningKey, others: Vec<PublicKey>) -> Self {
        let mut verifying = vec![signing.public().clone()];
        verifying.extend(others);
        Self {
            url: url.to_owned(),
            audiences: vec![url.to_owned()],
            extend: true,
            most_seconds: None,
            signing,
            verifying,
            verified: Verified::default(),
        }
    }

    /// The keys by which others can verify tokens.
    pub fn keys(&self) -> &[PublicKey] {
        &self.verifying
    }

    /// The claims as a signed token. They are those of [`Claims`] or of [`LegacyClaims`].
    ///
    /// [`LegacyClaims`]: super::LegacyClaims
    pub fn sign(&self, claims: &impl Serialize) -> Result<String, keys::Error> {
        let header = Header {
            alg: self.signing.public().algorithm.name().to_owned(),
            kid: self.signing.public().id.clone(),
        };
        let mut token = format!("{}.{}", encoded(&header), encoded(claims));
        let signature = self.signing.sign(token.as_bytes())?;
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(signature, &mut token);
        Ok(token)
    }

    /// The claims of a token that one of the keys has signed; `None` if it is no token of this issuer.
    pub fn verify(&self, token: &str) -> Result<Option<Arc<Claims>>, Refused> {
        let id = digest(&digest::SHA256, token.as_bytes());
        let id = id.as_ref().try_into().expect("the digest has its length");
        if let Some(claims) = self.verified.find(&id) {
            return Ok(Some(claims));
        }
        let Some(claims) = self.signed_by::<Claims>(&self.url, token)? else {
            return Ok(None);
        };
        let claims = Arc::new(claims);
        self.verified.remember(id, claims.clone());
        Ok(Some(claims))
    }

    /// The claims of a token kept in a secret, if it is one.
    pub fn verify_legacy(&self, token: &str) -> Result<Option<LegacyClaims>, Refused> {
        self.signed_by(legacy::ISSUER, token)
    }

    /// The claims of a token that says it is from this issuer and has a good signature.
    fn signed_by<T: DeserializeOwned>(&self, issuer: &str, token: &str) -> Result<Option<T>, Refused> {
        let Some((signed, signature)) = token.rsplit_once('.') else {
            return Ok(None);
        };
        let Some((header, claims)) = signed.split_once('.') else {
            return Ok(None);
        };
        let named = decoded::<Named>(claims).filter(|named| named.iss == issuer);
        let (Some(_), Some(header), Some(claims)) = (named, decoded::<Header>(header), decoded::<T>(claims))
        else {
            return Ok(None);
        };
        let signature = URL_SAFE_NO_PAD
            .decode(signature)
            .map_err(|_| Refused("invalid signature".to_owned()))?;
        let mut named = self.named(&header).peekable();
        if named.peek().is_none() {
            return Err(Refused("invalid signature, no keys found".to_owned()));
        }
        match named.any(|key| key.verifies(signed.as_bytes(), &signature)) {
            true => Ok(Some(claims)),
            false => Err(Refused("invalid signature".to_owned())),
        }
    }

    /// The keys a header may mean. A key is used only with its own algorithm, whatever the token says.
    fn named<'a>(&'a self, header: &'a Header) -> impl Iterator<Item = &'a PublicKey> {
        self.verifying.iter().filter(|key| {
            key.algorithm.name() == header.alg && (header.kid.is_empty() || key.id == header.kid)
        })
    }
}

fn encoded(part: &impl Serialize) -> String {
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(part).expect("claims have only strings and numbers"))
}

fn decoded<T: DeserializeOwned>(part: &str) -> Option<T> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}

// === impl Verified ===

impl Verified {
    fn find(&self, id: &[u8; digest::SHA256_OUTPUT_LEN]) -> Option<Arc<Claims>> {
        self.0.lock().get(id).cloned()
    }

    fn remember(&self, id: [u8; digest::SHA256_OUTPUT_LEN], claims: Arc<Claims>) {
        let mut known = self.0.lock();
        if known.len() >= MOST_REMEMBERED {
            known.clear();
        }
        known.insert(id, claims);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn issuer() -> Issuer {
        let key = SigningKey::from_pem(&SigningKey::generate().unwrap()).unwrap();
        Issuer::new(DEFAULT_URL, key, Vec::new())
    }

    fn claims() -> Claims {
        Claims {
            issuer: DEFAULT_URL.to_owned(),
            subject: "system:serviceaccount:default:web".to_owned(),
            expires: Some(4600),
            ..Claims::default()
        }
    }

    /// The token with another payload under the same signature.
    fn forged(token: &str, change: impl Fn(&mut Claims)) -> String {
        let parts: Vec<&str> = token.split('.').collect();
        let mut claims: Claims = decoded(parts[1]).unwrap();
        change(&mut claims);
        format!("{}.{}.{}", parts[0], encoded(&claims), parts[2])
    }

    #[track_caller]
    fn check(issuer: &Issuer, token: &str, expected: Result<bool, &str>) {
        let found = issuer.verify(token);
        let found = found
            .as_ref()
            .map(Option::is_some)
            .map_err(|refused| refused.0.as_str());
        assert_eq!(found, expected);
    }

    #[test]
    fn an_issuer_knows_its_own_tokens() {
        let issuer = issuer();
        let token = issuer.sign(&claims()).unwrap();
        check(&issuer, &token, Ok(true));
        assert_eq!(*issuer.verify(&token).unwrap().unwrap(), claims());
    }

    #[test]
    fn a_key_that_no_longer_signs_may_still_verify() {
        let old = issuer();
        let token = old.sign(&claims()).unwrap();
        let key = SigningKey::from_pem(&SigningKey::generate().unwrap()).unwrap();
        let new = Issuer::new(DEFAULT_URL, key, old.keys().to_vec());
        check(&new, &token, Ok(true));
    }

    #[test]
    fn forged_and_foreign_tokens_are_refused() {
        let issuer = issuer();
        let token = issuer.sign(&claims()).unwrap();
        let other = forged(&token, |claims| {
            claims.subject = "system:serviceaccount:kube-system:root".to_owned()
        });
        check(&issuer, &other, Err("invalid signature"));
        let later = forged(&token, |claims| claims.expires = Some(i64::MAX));
        check(&issuer, &later, Err("invalid signature"));
        let foreign = self::issuer().sign(&claims()).unwrap();
        check(&issuer, &foreign, Err("invalid signature, no keys found"));
    }

    #[test]
    fn a_token_without_signature_is_refused() {
        let issuer = issuer();
        let header = Header {
            alg: "none".to_owned(),
            kid: String::new(),
        };
        let token = format!("{}.{}.", encoded(&header), encoded(&claims()));
        check(&issuer, &token, Err("invalid signature, no keys found"));
    }

    #[test]
    fn what_is_no_token_of_this_issuer_is_left_to_others() {
        let issuer = issuer();
        check(&issuer, "secret", Ok(false));
        check(&issuer, "a.b.c", Ok(false));
        let elsewhere = Claims {
            issuer: "https://elsewhere".to_owned(),
            ..claims()
        };
        let token = issuer.sign(&elsewhere).unwrap();
        check(&issuer, &token, Ok(false));
    }
}
