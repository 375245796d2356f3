//! What every request passes on its way in, one file each. `chain` says in which order.

pub(crate) mod audit;
pub(crate) mod authenticate;
pub(crate) mod authorize;
pub(crate) mod fair;
pub(crate) mod impersonate;
pub(crate) mod limit;
pub(crate) mod panic;
pub(crate) mod record;
