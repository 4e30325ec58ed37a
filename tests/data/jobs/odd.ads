ClusterId = 3
ProcId = 1
Owner = "alice"
JobStatus = 2
R1 = 0.1
R2 = 1.0
R3 = 1e22
R4 = 1.0e-7
R5 = 123456789.123456789
R6 = -0.0
R7 = real("NaN")
R8 = real("INF")
Neg = -5
Big = 9223372036854775807
S1 = "a\b"
S2 = "tab	é\"q\""
S3 = ""
U = undefined
E = error
B = true
L = {1,"a",{2.5,undefined},[x=1]}
L0 = {}
Ad = [a=1;b="x\"y"]
Ex = Memory*2+TARGET.Foo
Ex2 = JobStatus+1
Q = a is b && !c || d =?= "e"
T = absTime("2020-01-01T00:00:00Z")
Xml = "<a>&'"
Fn = ifThenElse(x,1,2)
Pri = 1 ? 2 : 3
Path = "/a/b/c"
Und = foo

ClusterId = 2
ProcId = 0
Owner = "bob"
JobStatus = 5
