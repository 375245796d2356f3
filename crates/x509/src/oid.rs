//! Object identifiers, as their arcs.

pub const COMMON_NAME: &[u32] = &[2, 5, 4, 3];
pub const COUNTRY: &[u32] = &[2, 5, 4, 6];
pub const LOCALITY: &[u32] = &[2, 5, 4, 7];
pub const STATE: &[u32] = &[2, 5, 4, 8];
pub const ORGANIZATION: &[u32] = &[2, 5, 4, 10];
pub const ORGANIZATIONAL_UNIT: &[u32] = &[2, 5, 4, 11];

pub const SUBJECT_KEY_ID: &[u32] = &[2, 5, 29, 14];
pub const KEY_USAGE: &[u32] = &[2, 5, 29, 15];
pub const SUBJECT_ALT_NAME: &[u32] = &[2, 5, 29, 17];
pub const BASIC_CONSTRAINTS: &[u32] = &[2, 5, 29, 19];
pub const AUTHORITY_KEY_ID: &[u32] = &[2, 5, 29, 35];
pub const EXTENDED_KEY_USAGE: &[u32] = &[2, 5, 29, 37];
pub const SERVER_AUTH: &[u32] = &[1, 3, 6, 1, 5, 5, 7, 3, 1];
pub const CLIENT_AUTH: &[u32] = &[1, 3, 6, 1, 5, 5, 7, 3, 2];

/// The attribute of a certificate request that lists the requested extensions.
pub(crate) const EXTENSION_REQUEST: &[u32] = &[1, 2, 840, 113_549, 1, 9, 14];

pub(crate) const RSA: &[u32] = &[1, 2, 840, 113_549, 1, 1, 1];
pub(crate) const RSA_PSS: &[u32] = &[1, 2, 840, 113_549, 1, 1, 10];
pub(crate) const RSA_WITH_SHA256: &[u32] = &[1, 2, 840, 113_549, 1, 1, 11];
pub(crate) const RSA_WITH_SHA384: &[u32] = &[1, 2, 840, 113_549, 1, 1, 12];
pub(crate) const RSA_WITH_SHA512: &[u32] = &[1, 2, 840, 113_549, 1, 1, 13];
pub(crate) const EC_PUBLIC_KEY: &[u32] = &[1, 2, 840, 10045, 2, 1];
pub(crate) const P256: &[u32] = &[1, 2, 840, 10045, 3, 1, 7];
pub(crate) const P384: &[u32] = &[1, 3, 132, 0, 34];
pub(crate) const ECDSA_WITH_SHA256: &[u32] = &[1, 2, 840, 10045, 4, 3, 2];
pub(crate) const ECDSA_WITH_SHA384: &[u32] = &[1, 2, 840, 10045, 4, 3, 3];
pub(crate) const ED25519: &[u32] = &[1, 3, 101, 112];
pub(crate) const SHA256: &[u32] = &[2, 16, 840, 1, 101, 3, 4, 2, 1];
pub(crate) const SHA384: &[u32] = &[2, 16, 840, 1, 101, 3, 4, 2, 2];
pub(crate) const SHA512: &[u32] = &[2, 16, 840, 1, 101, 3, 4, 2, 3];
