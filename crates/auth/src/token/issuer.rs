//! [`Issuer`]: signs and verifies service account tokens.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::{Mutex, RwLock};
use ring::digest::{self, digest};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::claims::Claims;
use super::legacy::{self, LegacyClaims};
use crate::keys::{self, PublicKey, SigningKey};

/// The default issuer URL.
pub const DEFAULT_URL: &str = "https://kubernetes.default.svc";
/// How many verified tokens are cached.
const MAX_VERIFIED_TOKENS: usize = 4096;

/// Signs tokens and verifies them.
#[derive(Debug)]
pub struct Issuer {
    /// The issuer URL (`iss`).
    pub url: String,
    /// Further issuers whose tokens are accepted, if they are signed by one of the keys.
    pub accepted_urls: Vec<String>,
    /// The URL of the keys in the discovery document, if it is not this server's.
    pub jwks_uri: Option<String>,
    /// The audiences of the server itself.
    pub audiences: Vec<String>,
    /// Whether projected tokens of pods are valid for a year, with a `warnafter` claim from when on their use is reported.
    /// Programs that never reload their token then keep working.
    pub extend_expiration: bool,
    /// The longest expiration that a TokenRequest may set.
    pub max_expiration_seconds: Option<i64>,
    /// Locked before `verified`: a token is cached only while the keys that verified it are current.
    keys: RwLock<Keys>,
    verified: VerifiedTokens,
}

/// The keys of an issuer at one time. A rotation replaces all of them.
#[derive(Debug)]
struct Keys {
    signing: SigningKey,
    /// The public keys that verify tokens, that of the signing key first.
    verifying: Vec<PublicKey>,
}

/// An invalid token. A TokenReview returns the message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidToken(pub String);

/// Cache of tokens with a valid signature, by their digest. A signature stays valid, so entries never expire; times and
/// bound objects are checked on each use. When the cache is full it is cleared.
#[derive(Debug, Default)]
struct VerifiedTokens(Mutex<HashMap<[u8; digest::SHA256_OUTPUT_LEN], Arc<Claims>>>);

#[derive(Debug, Serialize, Deserialize)]
struct Header {
    alg: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    kid: String,
}

/// The issuer, read before the signature is verified: tokens of other issuers are skipped.
#[derive(Debug, Deserialize)]
struct IssuerClaim {
    iss: String,
}

// === impl Issuer ===

impl Issuer {
    /// An issuer that signs with one key and verifies with it and `others`.
    pub fn new(url: &str, signing: SigningKey, others: Vec<PublicKey>) -> Self {
        Self {
            url: url.to_owned(),
            accepted_urls: Vec::new(),
            jwks_uri: None,
            audiences: vec![url.to_owned()],
            extend_expiration: true,
            max_expiration_seconds: None,
            keys: RwLock::new(Keys::new(signing, others)),
            verified: VerifiedTokens::default(),
        }
    }

    /// Replaces all keys. Tokens whose key is none of them are invalid from now on.
    pub fn replace_keys(&self, signing: SigningKey, others: Vec<PublicKey>) {
        let mut keys = self.keys.write();
        *keys = Keys::new(signing, others);
        self.verified.clear();
    }

    /// The public keys that verify tokens.
    pub fn keys(&self) -> Vec<PublicKey> {
        self.keys.read().verifying.clone()
    }

    /// Signs [`Claims`] or [`LegacyClaims`] as a JWT.
    ///
    /// [`LegacyClaims`]: super::LegacyClaims
    pub fn sign(&self, claims: &impl Serialize) -> Result<String, keys::Error> {
        let keys = self.keys.read();
        let header = Header {
            alg: keys.signing.public().algorithm.name().to_owned(),
            kid: keys.signing.public().id.clone(),
        };
        let mut token = format!("{}.{}", encoded(&header), encoded(claims));
        let signature = keys.signing.sign(token.as_bytes())?;
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(signature, &mut token);
        Ok(token)
    }

    /// The claims of a token signed by one of the keys; `None` if it is not a token of this issuer.
    pub fn verify(&self, token: &str) -> Result<Option<Arc<Claims>>, InvalidToken> {
        let id = digest(&digest::SHA256, token.as_bytes());
        let id = id.as_ref().try_into().expect("the digest has its length");
        if let Some(claims) = self.verified.find(&id) {
            return Ok(Some(claims));
        }
        let is_accepted =
            |issuer: &str| self.url == issuer || self.accepted_urls.iter().any(|url| url == issuer);
        let keys = self.keys.read();
        let Some(claims) = keys.verify_issued_by::<Claims>(is_accepted, token)? else {
            return Ok(None);
        };
        let claims = Arc::new(claims);
        self.verified.insert(id, claims.clone());
        Ok(Some(claims))
    }

    /// The claims of a legacy token of a Secret; `None` if it is not one.
    pub fn verify_legacy(&self, token: &str) -> Result<Option<LegacyClaims>, InvalidToken> {
        let keys = self.keys.read();
        keys.verify_issued_by(|issuer| issuer == legacy::ISSUER, token)
    }
}

// === impl Keys ===

impl Keys {
    /// A retired key may be listed beside its successor more than once; it is kept once.
    fn new(signing: SigningKey, others: Vec<PublicKey>) -> Self {
        let mut verifying = vec![signing.public().clone()];
        for key in others {
            if verifying.iter().all(|known| known.id != key.id) {
                verifying.push(key);
            }
        }
        Self { signing, verifying }
    }

    /// The claims of a token of an accepted issuer with a valid signature.
    fn verify_issued_by<T: DeserializeOwned>(
        &self,
        is_accepted: impl Fn(&str) -> bool,
        token: &str,
    ) -> Result<Option<T>, InvalidToken> {
        let Some((signed, signature)) = token.rsplit_once('.') else {
            return Ok(None);
        };
        let Some((header, claims)) = signed.split_once('.') else {
            return Ok(None);
        };
        let from_issuer = decoded::<IssuerClaim>(claims).filter(|claim| is_accepted(&claim.iss));
        let (Some(_), Some(header), Some(claims)) =
            (from_issuer, decoded::<Header>(header), decoded::<T>(claims))
        else {
            return Ok(None);
        };
        let signature = URL_SAFE_NO_PAD
            .decode(signature)
            .map_err(|_| InvalidToken("invalid signature".to_owned()))?;
        let mut matching = self.matching(&header).peekable();
        if matching.peek().is_none() {
            return Err(InvalidToken("invalid signature, no keys found".to_owned()));
        }
        match matching.any(|key| key.verifies(signed.as_bytes(), &signature)) {
            true => Ok(Some(claims)),
            false => Err(InvalidToken("invalid signature".to_owned())),
        }
    }

    /// The keys that match a header. A key is used only with its own algorithm, whatever the header claims.
    fn matching<'a>(&'a self, header: &'a Header) -> impl Iterator<Item = &'a PublicKey> {
        self.verifying.iter().filter(|key| {
            key.algorithm.name() == header.alg && (header.kid.is_empty() || key.id == header.kid)
        })
    }
}

fn encoded(part: &impl Serialize) -> String {
    URL_SAFE_NO_PAD.encode(setpoint_api::json::to_vec(part).expect("claims have only strings and numbers"))
}

fn decoded<T: DeserializeOwned>(part: &str) -> Option<T> {
    setpoint_api::json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}

// === impl VerifiedTokens ===

impl VerifiedTokens {
    fn find(&self, id: &[u8; digest::SHA256_OUTPUT_LEN]) -> Option<Arc<Claims>> {
        self.0.lock().get(id).cloned()
    }

    fn insert(&self, id: [u8; digest::SHA256_OUTPUT_LEN], claims: Arc<Claims>) {
        let mut tokens = self.0.lock();
        if tokens.len() >= MAX_VERIFIED_TOKENS {
            tokens.clear();
        }
        tokens.insert(id, claims);
    }

    fn clear(&self) {
        self.0.lock().clear();
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
            .map_err(|error| error.0.as_str());
        assert_eq!(found, expected);
    }

    #[test]
    fn an_issuer_verifies_its_own_tokens() {
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
        let new = Issuer::new(DEFAULT_URL, key, old.keys());
        check(&new, &token, Ok(true));
    }

    #[test]
    fn a_rotated_key_verifies_its_tokens_until_it_is_dropped() {
        let issuer = issuer();
        let old_key = issuer.keys();
        let old = issuer.sign(&claims()).unwrap();
        check(&issuer, &old, Ok(true));
        let key = || SigningKey::from_pem(&SigningKey::generate().unwrap()).unwrap();
        issuer.replace_keys(key(), old_key.clone());
        check(&issuer, &old, Ok(true));
        let new = issuer.sign(&claims()).unwrap();
        check(&issuer, &new, Ok(true));
        assert_eq!(issuer.keys()[1].id, old_key[0].id);
        issuer.replace_keys(key(), issuer.keys()[..1].to_vec());
        check(&issuer, &old, Err("invalid signature, no keys found"));
        check(&issuer, &new, Ok(true));
    }

    #[test]
    fn forged_and_foreign_tokens_are_rejected() {
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
    fn a_token_without_signature_is_rejected() {
        let issuer = issuer();
        let header = Header {
            alg: "none".to_owned(),
            kid: String::new(),
        };
        let token = format!("{}.{}.", encoded(&header), encoded(&claims()));
        check(&issuer, &token, Err("invalid signature, no keys found"));
    }

    #[test]
    fn tokens_of_accepted_issuers_are_verified() {
        let mut issuer = issuer();
        issuer.accepted_urls = vec!["https://old".to_owned()];
        let old = Claims {
            issuer: "https://old".to_owned(),
            ..claims()
        };
        let token = issuer.sign(&old).unwrap();
        check(&issuer, &token, Ok(true));
    }

    #[test]
    fn a_token_of_another_issuer_is_not_recognized() {
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
