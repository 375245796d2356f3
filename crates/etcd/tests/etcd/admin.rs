//! What an administrator does with etcdctl.

use std::time::Duration;

use prost::Message;
use setpoint_grpc::{Channel, Endpoint};

use crate::rig::{Etcd, wait};

#[derive(Clone, PartialEq, Message)]
struct Empty {}

/// Two texts, as most requests about users have them.
#[derive(Clone, PartialEq, Message)]
struct Names {
    #[prost(string, tag = "1")]
    first: String,
    #[prost(string, tag = "2")]
    second: String,
}

#[derive(Clone, PartialEq, Message)]
struct Compaction {
    #[prost(int64, tag = "1")]
    revision: i64,
    #[prost(bool, tag = "2")]
    physical: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Alarms {
    #[prost(message, repeated, tag = "2")]
    alarms: Vec<Alarm>,
}

#[derive(Clone, PartialEq, Message)]
struct Alarm {
    #[prost(uint64, tag = "1")]
    member: u64,
    #[prost(int32, tag = "2")]
    alarm: i32,
}

#[derive(Clone, PartialEq, Message)]
struct AlarmAction {
    #[prost(int32, tag = "1")]
    action: i32,
    #[prost(uint64, tag = "2")]
    member: u64,
    #[prost(int32, tag = "3")]
    alarm: i32,
}

/// A second connection to a member.
pub(crate) struct Admin(Channel);

impl Admin {
    pub(crate) fn new(etcd: &Etcd) -> Self {
        Self(Channel::new(Endpoint::tcp("127.0.0.1", etcd.port)))
    }

    /// Enables authentication, with one user that may do everything.
    pub(crate) fn enable_authentication(&self, user: &str, password: &str) {
        wait(async {
            self.call("Auth/UserAdd", &names(user, password)).await;
            self.call("Auth/RoleAdd", &names("root", "")).await;
            self.call("Auth/UserGrantRole", &names(user, "root")).await;
            self.call("Auth/AuthEnable", &Empty {}).await;
        });
    }

    /// Frees the space of deleted keys and ends the alarm of the quota.
    pub(crate) fn free_space(&self, revision: u64) {
        wait(async {
            let compaction = Compaction {
                revision: i64::try_from(revision).unwrap(),
                physical: true,
            };
            self.call("KV/Compact", &compaction).await;
            self.call("Maintenance/Defragment", &Empty {}).await;
            let listed = self.call("Maintenance/Alarm", &Empty {}).await;
            for alarm in Alarms::decode(&listed[..]).unwrap().alarms {
                let deactivate = AlarmAction {
                    action: 2,
                    member: alarm.member,
                    alarm: alarm.alarm,
                };
                self.call("Maintenance/Alarm", &deactivate).await;
            }
        });
    }

    /// Calls a method and returns the encoded response.
    async fn call<Q: Message>(&self, method: &str, request: &Q) -> Vec<u8> {
        let method = format!("etcdserverpb.{method}");
        let timeout = Duration::from_secs(20);
        let response = self
            .0
            .unary::<_, Alarms>(&method, request, timeout, Vec::new())
            .await;
        response.unwrap().encode_to_vec()
    }
}

fn names(first: &str, second: &str) -> Names {
    Names {
        first: first.to_owned(),
        second: second.to_owned(),
    }
}
