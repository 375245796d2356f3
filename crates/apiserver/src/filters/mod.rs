//! The filters every request passes, one file each. `chain` has their order.

pub(crate) mod audit;
pub(crate) mod audit_id;
pub(crate) mod authenticate;
pub(crate) mod authorize;
pub(crate) mod bodies_in_flight;
pub(crate) mod flow_control;
pub(crate) mod impersonation_headers;
pub(crate) mod limit;
pub(crate) mod max_in_flight;
pub(crate) mod memory;
pub(crate) mod panic;
pub(crate) mod priority_and_fairness;
pub(crate) mod request_header;
