"""Hand-made rows of every trace format, in its published columns, bad ones among them."""

from __future__ import annotations

import json

PHILLY = """\
timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 07:01:55,66.0,1,66.0,vc1
2017-10-09 07:00:41,60.0,2,120.0,vc1
2017-10-09 07:00:41,60.0,2,120.0,vc1

2017-10-09 08:00:00,0.0,1,0.0,vc1
never,5.0,1,5.0,vc1
2017-02-31 08:00:00,5.0,1,5.0,vc1
2017-10-09 09:00:00,5.0,0,0.0,vc1
2017-10-09 09:00:00,nan,1,0.0,vc1
2017-10-09 09:00:00,120.5,8,964.0,vc2
2017
"""


def _attempt(start: object, end: object, *gpus: int) -> dict[str, object]:
    detail = [{"ip": f"m{n}", "gpus": [f"gpu{k}" for k in range(n)]} for n in gpus]
    return {"start_time": start, "end_time": end, "detail": detail}


def _philly_job(name: str, when: str, *attempts: dict[str, object]) -> dict[str, object]:
    more = {"status": "Pass", "vc": "vc1", "user": f"u-{name}"}
    return {**more, "jobid": name, "submitted_time": when, "attempts": list(attempts)}


_DAY = "2017-10-07"
PHILLY_JSON = json.dumps(
    [
        _philly_job(
            "application_1",
            f"{_DAY} 01:11:39",
            _attempt(f"{_DAY} 01:12:09", f"{_DAY} 01:13:23", 8, 4),
            _attempt(f"{_DAY} 01:13:30", f"{_DAY} 02:13:30", 8),
        ),
        _philly_job("application_2", f"{_DAY} 01:00:00"),
        _philly_job("application_3", f"{_DAY} 01:00:00", _attempt(f"{_DAY} 01:00:00", None, 1)),
        _philly_job("application_4", "None", _attempt(f"{_DAY} 01:00:00", f"{_DAY} 01:00:01", 1)),
        _philly_job(
            "application_5", f"{_DAY} 01:00:00", _attempt(f"{_DAY} 01:00:00", f"{_DAY} 01:00:30")
        ),
        7,
        _philly_job(
            "application_6",
            f"{_DAY} 01:01:39",
            _attempt("None", "None", 1),
            _attempt(f"{_DAY} 01:02:00", f"{_DAY} 01:02:30", 1),
        ),
        _philly_job(
            "application_6", f"{_DAY} 01:02:00", _attempt(f"{_DAY} 01:02:00", f"{_DAY} 01:03:00", 1)
        ),
        _philly_job(
            "application_7", f"{_DAY} 01:02:00", _attempt(f"{_DAY} 01:02:00", f"{_DAY} 01:01:00", 1)
        ),
    ]
)
HELIOS = """\
job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
11,u1,vcA,8,32,1,COMPLETED,2020-04-02 00:01:00,2020-04-02 00:02:00,2020-04-02 00:12:00,600,60
12,u2,vcA,0,4,1,COMPLETED,2020-04-02 00:00:00,2020-04-02 00:00:00,2020-04-02 00:01:00,60,0
13,u1,vcB,1,4,1,FAILED,2020-04-02 00:00:30,2020-04-02 00:00:30,2020-04-02 00:01:31,61,0
14,u1,vcB,1,4,1,CANCELLED,2020-04-02 00:03:00,,,,
"""
PAI = """\
job-a,worker,2.0,Terminated,1000.0,1600.0,600.0,29.3,50.0,MISC
job-a,ps,1.0,Terminated,990.0,1600.0,600.0,29.3,,
job-b,tensorflow,1.0,Running,1010.0,,600.0,29.3,100.0,T4
job-c,worker,1.0,Failed,1000.0,1100.0,600.0,29.3,200.0,V100
job-a,chief,1.0,Terminated,995.0,1700.0,600.0,29.3,100.0,MISC
job-d,ps,1.0,Terminated,995.0,1700.0,600.0,29.3,0.0,
"""
PAI_JOBS = """\
job_id,num_inst,submit_time,num_cpu,num_gpu,gpu_type,duration,user
0,1,500,6.0,0.5,MISC,120,ua
1,4,400,6.0,1.0,T4,90,ub
2,1,410,6.0,0,CPU,90,ub
"""
OPENB = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
openb-pod-0001,6000,12288,1,460,,LS,Running,427061,427161,427071
openb-pod-0002,12000,24576,8,1000,V100M16|V100M32,LS,Succeeded,427000,430600,427000
openb-pod-0096,18708,64512,1,1000,,LS,Pending,10019975,10020052,
openb-pod-0097,18708,64512,0,0,,LS,Succeeded,427000,427500,427000
"""
GAVEL = (
    "ResNet-18 (batch size 32)\tcmd\targ\t1\t100\t5.5\t1\n"
    "ResNet-18 (batch size 32)\tcmd\tdir\targ\t1\t200\t4\t2.5\t-1.0\t0\n"
    "LM\tcmd\targ\t1\t100\t6\t12\n"
    "LM\tcmd\n"
)
SHOCKWAVE = (
    "LM (batch size 10)\tcmd\tdir\t--steps\t1\t1000\t2\tgns\t1\t-1.000000\t1418\t3\n"
    "LM (batch size 10)\tcmd\tdir\t--steps\t1\t500\t2\tstatic\t1\t-1.000000\t709\t4\n"
    "LM (batch size 10)\tcmd\tdir\t--steps\t1\t500\t2\tstatic\t1\t-1.000000\t0\t5\n"
)
RATES = {
    "v100": {
        "('ResNet-18 (batch size 32)', 1)": {"null": 10.0},
        "('ResNet-18 (batch size 32)', 4)": {"null": 8.0},
        "('LM', 1)": {"null": 5.0},
    },
    "k80": {
        "('ResNet-18 (batch size 32)', 1)": {"null": 2.0},
        "('ResNet-18 (batch size 32)', 4)": {"null": 0.0},
    },
}
POLLUX = """\
name,time,application,num_replicas,batch_size
cifar10-0,107,cifar10,6,2048
deepspeech2-1,110.5,deepspeech2,6,320
gpt-2,111,gpt,6,320
"""
MURI = """\
job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,iteration_time,resource_time_0,resource_time_1,resource_time_2,priority
0,8,1000,10956,gpt2,4,5095000,91000,437,0.6,419,49,0
1,8,2534,1463,vgg16,16,281000,28000,214,82,75,66,1
2,8,2535,100,vgg16,16,281000,28000,220,82,75,66,1
3,1,2536,100,vgg16,16,281000,28000,0,82,75,0,1
"""
TIRESIAS = """\
job_id,num_gpu,submit_time,iterations,model_name,duration,interval
0,1,0,606,vgg19,164,30
1,8,30,133,vgg11,147,23
1,8,30,133,vgg11,147,23
2,2,40,0,vgg11,147,23
3,2,40,10,vgg11,0,23
"""
ELASTICFLOW = """\
job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,duration
0,3715485,2011,cifar10,3719996,4096,1,5644
1,3717550,1548,ncf,3717583,32768,8,66
"""
WARREN = """\
job,arrival_s,model,batch,scale,rounds,weight,sync,user,group
late,10,resnet50,32,4,600,2.0,ps,ana,lr
early,0.5,vgg19,128,2,100,,ps,,
none,0.5,,128,2,100,,ps,,
"""

SLURM = """\
JobID|JobName|User|Partition|Submit|Start|End|Elapsed|State|AllocTRES|ReqTRES
11|train|u1|gpu|2024-03-05T10:00:30|2024-03-05T10:01:00|2024-03-05T11:01:00|01:00:00|COMPLETED|cpu=8,gres/gpu=2,node=1|cpu=8,gres/gpu=2,node=1
11.batch|batch|||2024-03-05T10:01:00|2024-03-05T11:01:00|01:00:00|COMPLETED|cpu=8,gres/gpu=2,node=1|
11.0|python|||2024-03-05T10:01:00|2024-03-05T11:01:00|01:00:00|COMPLETED|cpu=8,gres/gpu=2,node=1|
12_1|sweep|u2|gpu|2024-03-05T10:05:00|2024-03-05T10:05:10|2024-03-05T10:35:10|00:30:00|CANCELLED by 7|gres/gpu:a100=4,gres/gpu=4,node=2|gres/gpu=4
12_[2-9%2]|sweep|u2|gpu|2024-03-05T10:05:00|Unknown|Unknown|00:00:00|PENDING||gres/gpu=4
13|cpu|u2|cpu|2024-03-05T10:05:00|2024-03-05T10:05:00|2024-03-05T10:06:00|00:01:00|FAILED|cpu=8,mem=1G,node=1|cpu=8
"""  # noqa: E501 - as sacct writes it

SAMPLES = {
    "philly": PHILLY,
    "philly-json": PHILLY_JSON,
    "helios": HELIOS,
    "pai": PAI,
    "openb": OPENB,
    "gavel": GAVEL,
    "pollux": POLLUX,
    "muri": MURI,
    "tiresias": TIRESIAS,
    "elasticflow": ELASTICFLOW,
    "slurm": SLURM,
    "warren": WARREN,
}
"""One text a format, by its name in the registry."""
