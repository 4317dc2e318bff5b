"""What people write for PBS, without a deadline: directives of users' guides and job scripts, some 250 of them.

A line is qsub's options as a shell reads them. H1, H2 and H3 stand for the first, second and third host, USER for the user. Each is for an idle cluster of three
hosts with four processors, where H3 has two GPUs (ngpus), `color=blue` and `bigmem=True`, and the server has five licences (lic).
"""

SELECT = """
-l select=1
-l select=2
-l select=3
-l select=1:ncpus=1
-l select=1:ncpus=2
-l select=1:ncpus=4
-l select=2:ncpus=2
-l select=2:ncpus=4
-l select=3:ncpus=1
-l select=3:ncpus=4
-l select=1:ncpus=0
-l select=1:ncpus=1:mem=100mb
-l select=1:ncpus=2:mem=1gb
-l select=1:mem=512mb
-l select=1:mem=1048576kb
-l select=1:mem=1gb:ncpus=4
-l select=2:mem=200mb
-l select=1:ncpus=4:mpiprocs=4
-l select=2:ncpus=4:mpiprocs=4
-l select=2:ncpus=2:mpiprocs=2
-l select=2:ncpus=4:mpiprocs=2:ompthreads=2
-l select=1:ncpus=4:ompthreads=4
-l select=1:ncpus=4:mpiprocs=1:ompthreads=4
-l select=1:mpiprocs=2
-l select=2:mpiprocs=1
-l select=1:ncpus=1+1:ncpus=2
-l select=1:ncpus=4+2:ncpus=1
-l select=1:ncpus=2:mem=100mb+1:ncpus=1:mem=200mb
-l select=1+1+1
-l select=1:ncpus=1:mpiprocs=1+2:ncpus=2:mpiprocs=2
-l select=1:host=H1
-l select=1:host=H2:ncpus=2
-l select=1:vnode=H3
-l select=1:ncpus=1:vnode=H2
-l select=1:host=H1+1:host=H2
-l select=1:ncpus=4:host=H3+1:ncpus=1:host=H1
-l select=1:arch=linux
-l select=1:ncpus=1:arch=linux
-l select=1:ngpus=1
-l select=1:ncpus=1:ngpus=2
-l select=1:ncpus=2:ngpus=1:mem=1gb
-l select=2:ngpus=1
-l select=1:ngpus=1+1:ncpus=2
-l select=1:color=blue
-l select=1:ncpus=1:color=blue
-l select=1:bigmem=True
-l select=1:bigmem=true:ncpus=2
-l select=1:bigmem=False
-l select=2:bigmem=False:ncpus=1
-l select=4:ncpus=1
-l select=4:ncpus=3
-l select=12:ncpus=1
-l select=6:ncpus=2
-l select=1:ncpus=3+3:ncpus=1
-lselect=1:ncpus=2
-lselect=2:ncpus=1:mem=10mb
-l select=1:ncpus=1 -l walltime=00:10:00
-l select=2:ncpus=2,walltime=600
-l walltime=1:00:00,select=1:ncpus=4:mem=2gb
"""

PLACE = """
-l place=free
-l place=pack
-l place=scatter
-l place=excl
-l place=exclhost
-l place=shared
-l place=vscatter
-l place=free:shared
-l place=pack:excl
-l place=pack:shared
-l place=scatter:excl
-l place=scatter:exclhost
-l place=free:excl
-l place=group=host
-l place=pack:group=host
-l place=scatter:group=arch
-l select=2:ncpus=2 -l place=pack
-l select=2:ncpus=2 -l place=scatter
-l select=2:ncpus=1 -l place=free
-l select=3:ncpus=1 -l place=scatter
-l select=2:ncpus=4 -l place=scatter
-l select=4:ncpus=1 -l place=pack
-l select=2:ncpus=1 -l place=pack:excl
-l select=2:ncpus=4 -l place=scatter:excl
-l select=1:ncpus=1 -l place=excl
-l select=1 -l place=exclhost
-l select=2:ncpus=1:mpiprocs=1 -l place=scatter:excl
-l select=2:mem=100mb,place=scatter
-l select=3:ncpus=1,place=vscatter
-l select=2:ncpus=2 -l place=group=host
-l select=1:ngpus=1 -l place=excl
-l select=1:host=H2 -l place=excl
"""

OLD = """
-l ncpus=1
-l ncpus=2
-l ncpus=4
-l ncpus=0
-l mem=100mb
-l mem=1gb
-l mem=2097152kb
-l mem=100000000
-l ncpus=2,mem=500mb
-l ncpus=4 -l mem=1gb -l walltime=00:05:00
-l ncpus=1,cput=100
-l cput=00:01:00
-l pcput=60
-l pmem=100mb
-l vmem=1gb
-l pvmem=1gb
-l file=10mb
-l nice=5
-l walltime=60
-l walltime=00:10:00
-l walltime=10:00
-l arch=linux
-l host=H1
-l host=H2,ncpus=2
-l vnode=H3
-l ngpus=1
-l ngpus=2,ncpus=2
-l lic=1
-l lic=2,ncpus=1
-l lic=1 -l select=1:ncpus=1
-l software=matlab
-l mpiprocs=2
-l ompthreads=2
-l ncpus=4,ompthreads=2
-l ncpus=4,mpiprocs=4
-l color=blue
-l bigmem=True
-l min_walltime=60,max_walltime=120
-l place=excl -l ncpus=1
-l place=pack -l ncpus=4
-l nodes=1
-l nodes=2
-l nodes=3
-l nodes=1:ppn=1
-l nodes=1:ppn=2
-l nodes=1:ppn=4
-l nodes=2:ppn=2
-l nodes=2:ppn=4
-l nodes=3:ppn=4
-l nodes=1:ppn=2:cpp=2
-l nodes=2:cpp=2
-l nodes=2:ncpus=2
-l nodes=1:ppn=1:ncpus=2
-l nodes=H1
-l nodes=H1:ppn=2
-l nodes=H1+H2
-l nodes=H1:ppn=2+H3:ppn=4
-l nodes=1:ppn=2+1:ppn=4
-l nodes=1+1:ppn=2
-l nodes=2:ppn=2#shared
-l nodes=1:ppn=4#excl
-l nodes=1#excl
-l nodes=1:ppn=1 -l walltime=100
-l nodes=1:ppn=2,walltime=00:10:00
-l nodes=1:ppn=2,mem=100mb
-l nodes=2:ppn=2 -l mem=1gb
-l nodes=2:ppn=4,mem=2gb,walltime=600
-l nodes=1:ppn=2,pmem=100mb
-l nodes=1:ppn=2,vmem=1gb
-l nodes=1:ppn=4 -l cput=100
-l nodes=2:ppn=1 -l place=scatter
-l nodes=2:ppn=1 -l place=pack
-l nodes=1:ppn=2 -l ngpus=1
-l nodes=1:color
-l nodes=1:bigmem
-l nodes=2:ppn=1 -l ncpus=4
-l mem=1gb,ncpus=2,place=scatter
"""

OTHERS = """

-N name
-N a-longer_name.of.a_job
-j oe
-j eo
-j n
-k oe
-k n
-k d
-o /dev/null -e /dev/null
-o localhost:/tmp/libra-out
-q workq
-q @SERVER
-q workq@SERVER
-p 100
-p -100
-r y
-r n
-m abe
-m n
-M USER@localhost
-S /bin/sh
-S /bin/bash
-A account
-P project
-v NAME=value
-v A=1,B=2
-V
-W umask=022
-W group_list=nogroup
-W sandbox=PRIVATE
-W Output_Path=/dev/null
-W stagein=/tmp/libra-a@localhost:/etc/hostname
-W run_count=3
-W tolerate_node_failures=none
-W release_nodes_on_stageout=false
-W block=false
-c n
-c s
-R o
-h
-h -l select=2:ncpus=2
-a 203012312359
-J 0-1
-J 1-3
-J 1-5:2
-J 1-2 -l select=1:ncpus=2
-J 1-2%1
-J 1-3 -l ncpus=1,mem=10mb
-N x -l select=2:ncpus=2:mpiprocs=2 -l place=scatter -l walltime=00:30:00 -j oe -m n -r n
-N y -l nodes=2:ppn=4 -l walltime=01:00:00 -q workq -V -j oe
-N z -l ncpus=4 -l mem=2gb -S /bin/bash -k oe -A site
"""

# Not to be had here: PBS refuses them, or the job waits; so it must with Libra.
NOT_HERE = """
-l select=0
-l select=x
-l select=1:ncpus=x
-l select=1:ncpus=-1
-l select=1:nothing=1
-l select=1:ncpus
-l select=1:ncpus=1:ncpus=2
-l select=
-l select=1:mem=much
-l select=1:ncpus=1 -l ncpus=2
-l select=1:ncpus=1 -l nodes=1
-l place=nowhere
-l place=free:free
-l place=group
-l nodes=0
-l nodes=x:ppn=y
-l nodes=1:ppn=0
-l nodes=nowhere
-l ncpus=x
-l mem=lots
-l walltime=never
-l nothing=1
-q nowhere
-p 5000
-J 5
-J 5-1
-W depend=afterok:99999
-W nothing=1
-l select=1:ncpus=5
-l select=4:ncpus=4
-l nodes=4
-l nodes=1:ppn=5
-l select=1:mem=1000tb
-l select=1:ngpus=3
-l select=1:color=red
-l lic=6
-l host=nowhere
"""


def all_of(*parts):
    """The lines of these lists; the empty one too, where nothing is asked for."""
    return list(dict.fromkeys(line for part in parts for line in part.strip("\n").split("\n")))


GOOD = all_of(SELECT, PLACE, OLD, OTHERS)
BAD = all_of(NOT_HERE)
