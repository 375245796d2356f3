//! Functions of Sprig that always fail: those that use the network, and those that generate keys, certificates and password
//! hashes. `env` and `expandenv` do not exist at all, as in KUDO.

use super::super::Type::{Any, Int, String as Text, Uint32};
use super::super::{Context, Row, row};
use crate::value::{Operand, Value};

pub(super) const ROWS: &[Row] = &[
    row("getHostByName", &[Text], network),
    row("bcrypt", &[Text], cryptography),
    row("htpasswd", &[Text, Text], cryptography),
    row("genPrivateKey", &[Text], cryptography),
    row("derivePassword", &[Uint32, Text, Text, Text, Text], cryptography),
    row("buildCustomCert", &[Text, Text], cryptography),
    row("genCA", &[Text, Int], cryptography),
    row("genCAWithKey", &[Text, Int, Text], cryptography),
    row("genSelfSignedCert", &[Text, Any, Any, Int], cryptography),
    row(
        "genSelfSignedCertWithKey",
        &[Text, Any, Any, Int, Text],
        cryptography,
    ),
    row("genSignedCert", &[Text, Any, Any, Int, Any], cryptography),
    row(
        "genSignedCertWithKey",
        &[Text, Any, Any, Int, Any, Text],
        cryptography,
    ),
    row("encryptAES", &[Text, Text], cryptography),
    row("decryptAES", &[Text, Text], cryptography),
];

fn network(_: &Context<'_>, _: &[Operand]) -> Result<Value, String> {
    Err("templates cannot use the network".to_owned())
}

fn cryptography(_: &Context<'_>, _: &[Operand]) -> Result<Value, String> {
    Err("this function is not supported".to_owned())
}
